"""What `logdrive receiver check` finds of a store of the receiver's own: directory, durability, and
retention.
"""

import contextlib
import os
from collections.abc import Iterator

from logdrive.address import StreamAddress
from logdrive.check import Finding
from logdrive.errors import os_error_text
from logdrive.host.disk import Disk
from logdrive.store.opening import LOCK_NAME
from logdrive.store.retention import first_matching
from receiver.config import ReceiverConfig

_PROBE = ".logdrive-check"


def check_store(config: ReceiverConfig, stream: StreamAddress, disk: Disk) -> list[Finding]:
    """Return the findings on the store of *stream*, which a start would open or make."""
    findings = [_directory(stream.path, disk)]
    if findings[0].ok:
        findings.append(_durability(stream.path, disk))
    return [*findings, _retention(config, stream)]


def _directory(path: str, disk: Disk) -> Finding:
    """Check whether the store can be opened, or made if there is none."""
    existing = next(place for place in _upwards(path) if _is_there(disk, place))
    try:
        # a permission is only known by its use: ACLs and read-only mounts have their own rules
        _write_probe(disk, existing)
        if existing == path and _is_there(disk, lock := os.path.join(path, LOCK_NAME)):
            with disk.lock(lock):
                pass
    except BlockingIOError:
        return Finding(
            "sink.uri",
            False,
            f"another process has the store in {path}, such as a receiver that runs "
            "already: stop it, or name another directory",
        )
    except OSError as error:
        return Finding(
            "sink.uri",
            False,
            f"{existing} can't be written: {os_error_text(error)}",
        )
    return Finding(
        "sink.uri",
        True,
        f"{path} is there and writable"
        if existing == path
        else f"{path} will be made in {existing}",
    )


def _durability(path: str, disk: Disk) -> Finding:
    """Say what durable means here (rule S1)."""
    existing = next(place for place in _upwards(path) if _is_there(disk, place))
    where = disk.mount_point(existing)
    return Finding(
        "durability",
        True,
        f"one copy, on one disk (the file system at {where}): acknowledged once synced to "
        "it, lost with it",
    )


def _retention(config: ReceiverConfig, stream: StreamAddress) -> Finding:
    """Say what retention removes; a full disk stops every agent."""
    policy = first_matching([table.policy for table in config.retention])(
        f"{stream.scope}/{stream.stream}"
    )
    if policy is None:
        return Finding(
            "retention",
            True,
            "none: the store keeps all that it is sent; add a [[retention]] table to limit the "
            "stream",
        )
    size = f"at most {policy.max_bytes:,} bytes" if policy.max_bytes is not None else ""
    age = (
        f"nothing older than {policy.max_age_ms / 1000:,.15g} s"
        if policy.max_age_ms is not None
        else ""
    )
    waits = f"; what {' or '.join(policy.readers)} has not read stays" if policy.readers else ""
    return Finding(
        "retention",
        True,
        f"{' and '.join(filter(None, (size, age)))} of {stream.scope}/{stream.stream} is "
        f"kept{waits}",
    )


def _upwards(path: str) -> Iterator[str]:
    while True:
        yield path
        if path == (parent := os.path.dirname(path)):
            return
        path = parent


def _is_there(disk: Disk, path: str) -> bool:
    try:
        disk.stat(path)
    except OSError:
        return False
    return True


def _write_probe(disk: Disk, directory: str) -> None:
    probe = os.path.join(directory, _PROBE)
    with contextlib.suppress(FileNotFoundError):
        disk.remove(probe)  # left by a check that was killed
    file = disk.open(probe, write=True, create=True)
    try:
        file.append([b"x"])
    finally:
        file.close()
        disk.remove(probe)
