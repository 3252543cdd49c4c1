"""The address of a running store: `endpoint.json` in its directory, while a face listens.

The file may outlive its process: readers check first that the store's lock is held.
"""

import os

import msgspec

from logdrive.errors import StorageError
from logdrive.host.disk import Disk, write_atomically
from logdrive.model.units import KIB

_NAME = "endpoint.json"
_MAX_BYTES = 4 * KIB


class PublishedEndpoint(msgspec.Struct, frozen=True):
    """The content of `endpoint.json`, for programs on this host.

    *pravega* is the segment store's `host:port`; *tls*: it needs certificates; *token* is to be
    sent with requests, "" where none is needed.
    """

    pravega: str
    tls: bool = False
    token: str = ""


def endpoint_of(host: str, port: int, *, tls: bool, token: str = "") -> PublishedEndpoint:
    """Return the endpoint of a face that listens at (*host*, *port*), as seen on this host."""
    reachable = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return PublishedEndpoint(
        f"[{reachable}]:{port}" if ":" in reachable else f"{reachable}:{port}", tls, token
    )


def publish_endpoint(disk: Disk, directory: str, endpoint: PublishedEndpoint) -> None:
    """Write `endpoint.json`, readable only by the store's owner. Raises OSError."""
    write_atomically(
        disk, os.path.join(directory, _NAME), msgspec.json.encode(endpoint) + b"\n", private=True
    )


def withdraw_endpoint(disk: Disk, directory: str) -> None:
    """Remove `endpoint.json` if it exists. Raises OSError."""
    try:
        disk.remove(os.path.join(directory, _NAME))
    except FileNotFoundError:
        return


def read_endpoint(disk: Disk, directory: str) -> PublishedEndpoint | None:
    """Return what `endpoint.json` says; None where there is none.

    Raises `StorageError` for malformed content, OSError where it can't be read.
    """
    path = os.path.join(directory, _NAME)
    try:
        file = disk.open(path)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(file.pread(_MAX_BYTES, 0), type=PublishedEndpoint)
    except msgspec.DecodeError as error:
        raise StorageError(f"{path} is malformed: {error}") from error
    finally:
        file.close()
