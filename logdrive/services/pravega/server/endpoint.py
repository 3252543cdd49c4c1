"""Where a running store can be reached: `endpoint.json` in its directory, there while a face
listens.

It may outlive its process; whoever reads it looks first whether the store's lock is held.
"""

import os

import msgspec

from logdrive.errors import StorageError
from logdrive.host.disk import Disk, write_atomically
from logdrive.model.units import KIB

_NAME = "endpoint.json"
_MOST_BYTES = 4 * KIB


class PublishedEndpoint(msgspec.Struct, frozen=True):
    """*pravega* is `host:port` as programs on this host reach it; *tls*: they need certificates for
    it; *token* lets them in there.
    """

    pravega: str
    tls: bool = False
    token: str = ""


def endpoint_of(host: str, port: int, *, tls: bool, token: str = "") -> PublishedEndpoint:
    """Return how programs on this host reach a face that listens at (*host*, *port*)."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return PublishedEndpoint(
        f"[{reachable}]:{port}" if ":" in reachable else f"{reachable}:{port}", tls, token
    )


def publish_endpoint(disk: Disk, directory: str, endpoint: PublishedEndpoint) -> None:
    """Write the file, for the store's owner only. Raises OSError."""
    write_atomically(
        disk, os.path.join(directory, _NAME), msgspec.json.encode(endpoint) + b"\n", private=True
    )


def withdraw_endpoint(disk: Disk, directory: str) -> None:
    """Remove the file where it is. Raises OSError."""
    try:
        disk.remove(os.path.join(directory, _NAME))
    except FileNotFoundError:
        return


def read_endpoint(disk: Disk, directory: str) -> PublishedEndpoint | None:
    """Return what the file says, None where there is none.

    Raises `StorageError` where it makes no sense.
    """
    path = os.path.join(directory, _NAME)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(file.pread(_MOST_BYTES, 0), type=PublishedEndpoint)
    except msgspec.DecodeError as error:
        raise StorageError(f"{path} says nothing useful: {error}") from error
    finally:
        file.close()
