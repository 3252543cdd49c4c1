"""The offsets of consumers and groups: how far each has come in which partition.

They are in the segment `_system/_iggy/1.#epoch.0`, as a journal (`logdrive.store.journal`). An
offset that a client stores is durable before it is acknowledged; what comes meanwhile is written
together. The offset that a poll commits by itself is in force at once and written behind it: after
a crash these messages may be delivered again, and none is lost.
"""

import asyncio
import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import structlog

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.model.units import MIB
from logdrive.store.engine import Store
from logdrive.store.journal import JournaledState, SegmentJournal
from logdrive.store.streams.names import IGGY, SYSTEM
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import Identifier
from logdrive.wire.pravega.names import segment_name

OFFSETS_SEGMENT: Final = segment_name(SYSTEM, IGGY, 1)
"""The segment that has the journal of offsets."""
_MOST_OFFSETS: Final = 1_000_000
"""Limit on the offsets of a store: all are in memory."""
_BEHIND_SECONDS: Final = 0.05
"""Seconds for which offsets that polls have committed are collected, to be written together."""
_RETRY_SECONDS: Final = 1.0
_log = structlog.get_logger("logdrive.store.iggy")

OffsetKey = tuple[str, str]
"""The full name of a partition's segment, and a consumer as `consumer_key` or `group_key` gives."""


class OffsetPut(msgspec.Struct, frozen=True, array_like=True, tag="offset"):
    """The offset of a consumer in a segment; None: none is stored."""

    segment: str
    consumer: str
    offset: int | None


class SegmentOffsetsPut(msgspec.Struct, frozen=True, array_like=True, tag="gone"):
    """A segment is gone, with all offsets in it."""

    segment: str


AnyOffsetPut = OffsetPut | SegmentOffsetsPut


class OffsetsRecord(msgspec.Struct, frozen=True):
    """One record of the journal."""

    puts: tuple[AnyOffsetPut, ...]


_decoder: Final = msgspec.json.Decoder(OffsetsRecord)


def decode_offset_puts(record: bytes) -> Sequence[AnyOffsetPut]:
    """Return the puts of one record of the journal. Raises `msgspec.DecodeError`."""
    return _decoder.decode(record).puts


def consumer_key(consumer: Identifier) -> str:
    """Return the key of a consumer, by the number or the name that it chose itself."""
    return f"n{consumer}" if isinstance(consumer, int) else f"s{consumer}"


def group_key(group: int) -> str:
    """Return the key of a group of the segment's topic."""
    return f"g{group}"


class OffsetsState:
    """The durable offsets, by segment and consumer."""

    def __init__(self) -> None:
        self.by_segment: dict[str, dict[str, int]] = {}
        self.count = 0

    def apply_puts(self, puts: Sequence[AnyOffsetPut]) -> None:
        """Apply one change."""
        for put in puts:
            by_consumer = self.by_segment.get(put.segment, {})
            before = len(by_consumer)
            if isinstance(put, SegmentOffsetsPut):
                by_consumer = {}
            elif put.offset is None:
                by_consumer.pop(put.consumer, None)
            else:
                by_consumer[put.consumer] = put.offset
            self.count += len(by_consumer) - before
            if by_consumer:
                self.by_segment[put.segment] = by_consumer
            else:
                self.by_segment.pop(put.segment, None)

    def puts_for_all(self) -> Iterator[AnyOffsetPut]:
        """Yield the puts that make this state from nothing."""
        for segment, by_consumer in self.by_segment.items():
            for consumer, offset in by_consumer.items():
                yield OffsetPut(segment, consumer, offset)


@dataclass(slots=True)
class _Waiting:
    """Changes that are to be written next, and the futures of those who wait for that."""

    changes: dict[OffsetKey, int | None] = field(default_factory=dict)
    futures: "list[asyncio.Future[None]]" = field(default_factory=list)


class ConsumerOffsets:
    """The offsets of one store; `run` writes them until it is cancelled, then call `flush`."""

    def __init__(self, store: Store, *, clock: Clock, slack: int = MIB) -> None:
        self._store = store
        self._clock = clock
        journal: SegmentJournal[OffsetsState, AnyOffsetPut] = SegmentJournal(
            store,
            OFFSETS_SEGMENT,
            new_state=OffsetsState,
            decode=decode_offset_puts,
            slack=slack,
        )
        self._journaled: JournaledState[OffsetsState, AnyOffsetPut] = JournaledState(
            journal, refusal=IggyError
        )
        # committed by polls, and not durable yet: in force already
        self._ahead: dict[OffsetKey, int] = {}
        self._waiting = _Waiting()
        self._wanted = asyncio.Event()
        # set while somebody waits for a write
        self._urgent = asyncio.Event()

    async def start(self) -> None:
        """Read what is stored, and forget offsets in segments that are gone."""
        async with self._journaled.turn() as state:
            gone = [name for name in state.by_segment if self._store.info(name) is None]
            if gone:
                await self._journaled.commit_puts([SegmentOffsetsPut(name) for name in gone])

    def get(self, segment: str, consumer: str) -> int | None:
        """Return the offset in force; None if none is stored."""
        ahead = self._ahead.get((segment, consumer))
        if ahead is not None:
            return ahead
        return self._journaled.state.by_segment.get(segment, {}).get(consumer)

    def note(self, segment: str, consumer: str, offset: int) -> None:
        """Put an *offset* in force that a poll commits; it is written before long."""
        key = (segment, consumer)
        if self.get(segment, consumer) is None:
            self._check_room()
        self._ahead[key] = offset
        self._waiting.changes[key] = offset
        self._wanted.set()

    async def put(self, segment: str, consumer: str, offset: int | None) -> None:
        """Store an *offset*, or delete it; durable when it returns. Raises what the store raises.

        Cancelling it undoes nothing.
        """
        if offset is not None and self.get(segment, consumer) is None:
            self._check_room()
        self._waiting.changes[segment, consumer] = offset
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.futures.append(written)
        self._wanted.set()
        self._urgent.set()
        await written

    async def forget(self, segments: Sequence[str]) -> None:
        """Forget all offsets in *segments*, which are deleted, or emptied."""
        gone = set(segments)
        for key in [key for key in self._ahead if key[0] in gone]:
            del self._ahead[key]
        for key in [key for key in self._waiting.changes if key[0] in gone]:
            del self._waiting.changes[key]
        async with self._journaled.turn() as state:
            if stored := [name for name in segments if name in state.by_segment]:
                await self._journaled.commit_puts([SegmentOffsetsPut(name) for name in stored])

    async def run(self) -> None:
        """Write offsets as they come, until cancelled; what polls have committed is tried again."""
        while True:
            await self._wanted.wait()
            if not self._urgent.is_set():
                await self._collect()
            try:
                await self.flush()
            except LogdriveError as error:
                _log.warning("offsets of consumers can't be written yet", reason=str(error))
                await self._clock.sleep(_RETRY_SECONDS)

    async def flush(self) -> None:
        """Write all that waits. Raises what the store raises; those who wait for it are told."""
        self._wanted.clear()
        self._urgent.clear()
        batch, self._waiting = self._waiting, _Waiting()
        try:
            async with self._journaled.turn():
                puts = [OffsetPut(*key, offset) for key, offset in batch.changes.items()]
                if puts:
                    await self._journaled.commit_puts(puts)
        except BaseException as error:
            if isinstance(error, LogdriveError):
                # what is in memory is not what is stored: read that again
                with contextlib.suppress(LogdriveError):
                    async with self._journaled.turn():
                        pass
            self._restore(batch, error)
            raise
        for key in batch.changes:
            # unless a poll has committed more meanwhile
            if key not in self._waiting.changes:
                self._ahead.pop(key, None)
        for future in batch.futures:
            if not future.done():
                future.set_result(None)

    def _restore(self, batch: _Waiting, error: BaseException) -> None:
        """Have what polls have committed written again, and tell the others that it failed."""
        for key in batch.changes:
            if key in self._ahead:
                self._waiting.changes.setdefault(key, self._ahead[key])
                self._wanted.set()
        for future in batch.futures:
            if future.done():
                continue
            if isinstance(error, LogdriveError):
                future.set_exception(error)
            else:
                future.cancel()

    async def _collect(self) -> None:
        """Wait until it is time to write what polls have committed, or somebody waits for it."""
        urgent = asyncio.ensure_future(self._urgent.wait())
        sleeping = asyncio.ensure_future(self._clock.sleep(_BEHIND_SECONDS))
        try:
            await asyncio.wait([urgent, sleeping], return_when=asyncio.FIRST_COMPLETED)
        finally:
            urgent.cancel()
            sleeping.cancel()

    def _check_room(self) -> None:
        if self._journaled.state.count + len(self._waiting.changes) >= _MOST_OFFSETS:
            raise IggyError(
                Reason.CANNOT_READ_OFFSETS,
                f"{_MOST_OFFSETS} offsets are stored: delete some of them",
            )
