"""Reads the files with the agent's certificates, and how long these are valid."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final, TypeVar

from logdrive.host.disk import Disk
from logdrive.model.units import MIB
from logdrive.net.client_pems import Validity, check_ca_pem, check_client_pem, check_key_pem
from logdrive.net.settings import ClientTlsConfig

_PEM_BYTES: Final = 4 * MIB
"""Limit on a file: a bundle of all public CAs has a quarter of a MiB."""
_SOON: Final = timedelta(days=21)
"""A certificate that ends sooner is warned about; see the next, too."""
_LAST_PART: Final = 5
"""Of a short-lived one, the warnings begin with the last fifth of its life."""

T = TypeVar("T")


def read_validities(table: ClientTlsConfig, disk: Disk) -> Iterator[tuple[str, Validity]]:
    """Yield the files with certificates, and how long these are valid.

    Raises OSError, and ValueError for files that can't be used, such as a key that does not fit.
    """
    yield table.ca, _checked(table.ca, lambda: check_ca_pem(_read(table.ca, disk)))
    if table.cert is not None and table.key is not None:
        cert, key = table.cert, table.key
        validity = _checked(cert, lambda: check_client_pem(_read(cert, disk)))
        _checked(key, lambda: check_key_pem(_read(key, disk), _read(cert, disk)))
        yield cert, validity


def ends_soon(validity: Validity, now: datetime) -> bool:
    """Return whether a certificate has ended, or should be renewed by *now*."""
    return validity.ends - now <= min(_SOON, validity.lifetime / _LAST_PART)


def _read(path: str, disk: Disk) -> bytes:
    file = disk.open(path)
    try:
        return file.pread(_PEM_BYTES, 0)
    finally:
        file.close()


def _checked(path: str, check: Callable[[], T]) -> T:
    try:
        return check()
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
