"""Certificates of a gRPC listener: a renewed one is used from the next connection on."""

from collections.abc import Callable
from functools import partial

import grpc

from logdrive.errors import ConfigError, Mistake, file_error_text
from logdrive.host.disk import Disk
from logdrive.host.transport import ServerTls
from logdrive.net.contexts import Contexts
from logdrive.net.pem_files import check_ca_pem, check_key_pem, read_pem


class GrpcCertificates:
    """The files of one listener. gRPC asks in threads of its own."""

    def __init__(self, tls: ServerTls, disk: Disk) -> None:
        """Read the files. Raises `ConfigError` for those that can't be used."""
        self._tls = tls
        self._read = Contexts(partial(_configuration, disk), disk)
        # what gRPC was given last
        self._given = self._read.get(tls)

    def credentials(self) -> grpc.ServerCredentials:
        """Return what the listener is given."""
        return grpc.dynamic_ssl_server_credentials(
            self._given,
            self._read_changed,  # type: ignore[arg-type] # its stubs lack the None for no change
            require_client_authentication=self._tls.ca is not None,
        )

    def _read_changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificates if they have changed, None if not: called for each connection."""
        found = self._read.get(self._tls)
        if found is self._given:
            return None
        self._given = found
        return found


def _configuration(disk: Disk, tls: ServerTls) -> grpc.ServerCertificateConfiguration:
    key, chain = _pem(disk, "key", tls.key), _pem(disk, "cert", tls.cert)
    _check("key", tls.key, lambda: check_key_pem(key, chain))
    trusted = None
    if tls.ca is not None:
        trusted = authorities = _pem(disk, "ca", tls.ca)
        _check("ca", tls.ca, lambda: check_ca_pem(authorities))
    return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=trusted)


def _pem(disk: Disk, key: str, path: str) -> bytes:
    try:
        return read_pem(path, disk)
    except OSError as error:
        raise ConfigError("tls", [Mistake(key, path, file_error_text(error))]) from error


def _check(key: str, path: str, check: Callable[[], object]) -> None:
    """Raise `ConfigError` if *check* finds that the file at *path* can't be used."""
    try:
        check()
    except ValueError as error:
        raise ConfigError("tls", [Mistake(key, path, str(error))]) from error
