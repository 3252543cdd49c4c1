"""Reads the files with the agent's certificates, and how long these are valid."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from logdrive.host.disk import Disk
from logdrive.net.pem_files import (
    Validity,
    check_ca_pem,
    check_cert_pem,
    check_key_pem,
    read_pem,
)
from logdrive.net.settings import ClientTlsConfig

T = TypeVar("T")


def read_validities(table: ClientTlsConfig, disk: Disk) -> Iterator[tuple[str, Validity]]:
    """Yield the files with certificates, and how long these are valid.

    Raises OSError, and ValueError for files that can't be used, such as a key that does not fit.
    """
    yield table.ca, _checked(table.ca, lambda: check_ca_pem(read_pem(table.ca, disk)))
    if table.cert is not None and table.key is not None:
        cert, key = table.cert, table.key
        validity = _checked(cert, lambda: check_cert_pem(read_pem(cert, disk)))
        _checked(key, lambda: check_key_pem(read_pem(key, disk), read_pem(cert, disk)))
        yield cert, validity


def _checked(path: str, check: Callable[[], T]) -> T:
    try:
        return check()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
