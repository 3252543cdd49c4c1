"""Messages of a poll's reply, at a client."""

from collections.abc import Iterator
from typing import NamedTuple

from logdrive.model.framing import Part
from logdrive.wire.iggy.revision import Revision


class IggyMessage(NamedTuple):
    """A message of a partition; times in µs since 1970, *headers* in R2C's form (`headers.py`)."""

    offset: int
    id: int
    timestamp: int
    # 0 before R2A
    origin: int
    headers: bytes
    payload: bytes


class PolledRun(NamedTuple):
    """Messages with consecutive offsets from *offset* on: the payloads as *events*, framed.

    `logdrive.model.framing.split_events` takes them apart.
    """

    offset: int
    count: int
    events: bytes


def decode_polled(revision: Revision, batches: Part) -> Iterator[IggyMessage]:
    """Yield the messages of `Polled.batches`. Raises `IggyError` where a checksum is wrong."""


def polled_runs(revision: Revision, batches: Part) -> Iterator[PolledRun]:
    """Yield the payloads of `Polled.batches`, the fast way. Raises `IggyError` likewise."""
