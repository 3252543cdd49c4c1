"""Certificates of a gRPC listener, read again when their files change.

A renewed certificate is used from the next connection on. Where it can't be used, say half-way
through a renewal, the former one stays in use, and a warning is logged.
"""

from collections.abc import Callable

import grpc
import structlog

from logdrive.errors import ConfigError, Mistake, file_error_text
from logdrive.host.disk import Disk
from logdrive.host.file_stamp import FileStamp, read_stamp
from logdrive.host.transport import ServerTls
from logdrive.net.pem_files import check_ca_pem, check_key_pem, read_pem

_log = structlog.get_logger("logdrive.net")


class GrpcCertificates:
    """The files of one listener. gRPC asks in threads of its own."""

    def __init__(self, tls: ServerTls, disk: Disk) -> None:
        self._tls = tls
        self._disk = disk
        # of CA, certificate and key when they were read last
        self._stamps = self._read_stamps()

    def credentials(self) -> grpc.ServerCredentials:
        """Return what the listener is given. Raises `ConfigError` for files that can't be used."""
        return grpc.dynamic_ssl_server_credentials(
            self._read(),
            self._read_changed,  # type: ignore[arg-type] # its stubs lack the None for no change
            require_client_authentication=self._tls.ca is not None,
        )

    def _read_changed(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the certificates if they have changed, None if not: called for each connection."""
        stamps = self._read_stamps()
        if stamps == self._stamps:
            return None
        self._stamps = stamps  # also after a failure: the same files are not tried again
        try:
            return self._read()
        except ConfigError as error:
            _log.warning(
                "certificates can't be loaded, the former ones are used", reason=str(error)
            )
            return None

    def _read_stamps(self) -> list[FileStamp | None]:
        paths = (self._tls.ca, self._tls.cert, self._tls.key)
        return [None if path is None else read_stamp(self._disk, path) for path in paths]

    def _read(self) -> grpc.ServerCertificateConfiguration:
        key, chain = self._pem("key", self._tls.key), self._pem("cert", self._tls.cert)
        trusted = None if self._tls.ca is None else self._pem("ca", self._tls.ca)
        _check("key", self._tls.key, lambda: check_key_pem(key, chain))
        if trusted is not None:
            _check("ca", self._tls.ca or "", lambda: check_ca_pem(trusted))
        return grpc.ssl_server_certificate_configuration([(key, chain)], root_certificates=trusted)

    def _pem(self, key: str, path: str) -> bytes:
        try:
            return read_pem(path, self._disk)
        except OSError as error:
            raise ConfigError("tls", [Mistake(key, path, file_error_text(error))]) from error


def _check(key: str, path: str, check: Callable[[], object]) -> None:
    """Raise `ConfigError` if *check* finds that the file at *path* can't be used."""
    try:
        check()
    except ValueError as error:
        raise ConfigError("tls", [Mistake(key, path, str(error))]) from error
