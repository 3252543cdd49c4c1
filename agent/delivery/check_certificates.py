"""Looks at the agent's certificates for `logdrive agent check`: whether they are valid, and stay
so.
"""

from datetime import UTC, datetime

from agent.delivery.certificate_files import read_validities
from logdrive.check import Finding
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.net.pem_files import Validity, ends_soon
from logdrive.net.settings import ClientTlsConfig


def check_certificates(tls: ClientTlsConfig, disk: Disk, clock: Clock) -> list[Finding]:
    """Return what is wrong with the times of certificates.

    Of files that can't be used at all, the connection to a receiver says what is wrong.
    """
    now = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    try:
        validities = list(read_validities(tls, disk))
    except (OSError, ValueError):
        return []
    return [
        finding
        for path, validity in validities
        if (finding := _check(path, validity, now, tls)) is not None
    ]


def _check(path: str, validity: Validity, now: datetime, tls: ClientTlsConfig) -> Finding | None:
    name = "output.tls.ca" if path == tls.ca else "output.tls.cert"
    if now < validity.begins:
        detail = f"{path} is not valid before {_time(validity.begins)}: is this host's clock right?"
        return Finding(name, ok=False, detail=detail)
    if not ends_soon(validity, now):
        return None
    ended = validity.ends <= now
    detail = f"{path} {'has ended' if ended else 'ends'} at {_time(validity.ends)}: renew it"
    return Finding(name, ok=not ended, detail=detail, warn=not ended)


def _time(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"
