"""The selection of rows that one replay is for, kept beside its writers' numbers.

A number says which batch its writer appended last, not which ones it left out before. With another
selection under the same name, rows would be appended twice, or left out in silence; so a digest of
the first one is kept as an attribute of the stream's segments, before anything is appended.
"""

from hashlib import sha256
from typing import Final
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.host.transport import Transport
from logdrive.model.numbers import ABSENT
from logdrive.net.retry import Exponential, retry_async
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.write.create import find_or_create_stream
from logdrive.services.pravega.client.errors import TokenError
from logdrive.services.pravega.reader.segments import connect_segments
from logdrive.store.errors import NoSuchSegmentError, SegmentSealedError

_WAIT: Final = Exponential(0.1, 5.0)  # seconds between two attempts
_ATTEMPTS: Final = 10
_AGAIN: Final = (TransientError, SegmentSealedError, NoSuchSegmentError, TokenError)
"""Failures after which the stream is looked at again: its segments, and tokens."""


async def keep_selection(
    stream: StreamClient,
    key: UUID,
    selection: str,
    *,
    transport: Transport,
    clock: Clock,
    segments: int | None,
) -> bool:
    """Keep *selection* as the attribute *key* of *stream*, unless it has one.

    Return whether it is the one that is kept. A stream that is not there is made with *segments*
    segments. Raises `ConfigError` if that is None, and `TransientError` if the service stays away.
    """

    async def attempt() -> bool:
        try:
            return await _keep_once(stream, key, _digest(selection), transport, segments)
        except _AGAIN as error:
            raise TransientError(f"{stream.uri}: {error}") from error

    again = retry_async(
        TransientError, sleep=clock.sleep, wait=_WAIT, give_up=lambda times: times >= _ATTEMPTS
    )
    kept: bool = await again(attempt)
    return kept


async def _keep_once(
    stream: StreamClient, key: UUID, digest: int, transport: Transport, segments: int | None
) -> bool:
    located = await find_or_create_stream(stream, segments, transport)
    async with connect_segments(transport, located) as found:
        # sealed segments, too: the stream may have been scaled since
        kept = [await one.client.get_attribute(one.state.segment, key) for one in found]
        if any(value not in (ABSENT, digest) for value in kept):
            return False
        # in the order of their numbers, so that of two replays at a time the same one is first
        for one, value in zip(found, kept, strict=True):
            if value != ABSENT or one.state.sealed:
                continue
            if not await one.client.update_attribute(one.state.segment, key, ABSENT, digest):
                raise TransientError("another replay of this name has just begun")
    return True


def _digest(selection: str) -> int:
    """Return a number for *selection*, in [0, 2^63), where no attribute means anything else."""
    return int.from_bytes(sha256(selection.encode()).digest()[:8]) >> 1
