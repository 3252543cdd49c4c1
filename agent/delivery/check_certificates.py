"""Looks at the agent's certificates for `logdrive agent check`: whether they are valid, and stay
so.
"""

from datetime import UTC, datetime

from agent.delivery.certificate_files import read_validities
from logdrive.check import Finding
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.net.certificate_ends import find_end
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
    found = (
        find_end(f"output.tls.{'ca' if path == tls.ca else 'cert'}", path, validity, now)
        for path, validity in validities
    )
    return [finding for finding in found if finding is not None]
