"""What is said of a certificate that ends, or is not valid yet: in a log, and by a check."""

from datetime import datetime, timedelta
from typing import Any, Final

from logdrive.check import Finding
from logdrive.net.pem_files import Validity

_SOON: Final = timedelta(days=21)
"""A certificate that ends sooner is warned about; see the next, too."""
_LAST_PART: Final = 5
"""Of a short-lived one, the warnings begin with the last fifth of its life."""


def ends_soon(validity: Validity, now: datetime) -> bool:
    """Return whether a certificate has ended, or should be renewed by *now*."""
    return validity.ends - now <= min(_SOON, validity.lifetime / _LAST_PART)


def warn_of_end(path: str, validity: Validity, now: datetime, *, remedy: str, log: Any) -> None:
    """Log that the certificate at *path* has ended, or will soon."""
    log.warning(
        "a certificate has ended" if validity.ends <= now else "a certificate ends soon",
        file=path,
        ends=_time(validity.ends),
        remedy=remedy,
    )


def find_end(key: str, path: str, validity: Validity, now: datetime) -> Finding | None:
    """Return the finding on a certificate that is not valid yet, has ended, or ends soon."""
    if now < validity.begins:
        detail = f"{path} is not valid before {_time(validity.begins)}: is this host's clock right?"
        return Finding(key, ok=False, detail=detail)
    if not ends_soon(validity, now):
        return None
    ended = validity.ends <= now
    detail = f"{path} {'has ended' if ended else 'ends'} at {_time(validity.ends)}: renew it"
    return Finding(key, ok=not ended, detail=detail, warn=not ended)


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
