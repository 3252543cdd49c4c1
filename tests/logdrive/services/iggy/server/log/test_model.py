"""Random lives of a partition, ended by power cuts and kills, against a log that only grows.

Iggy's clients send, with ids and without, poll and purge; S2's clients and other faces append and
truncate, all at once. What was shown once, an offset with its message, must hold for ever.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from logdrive.errors import LogdriveError
from logdrive.host import faults
from logdrive.model.framing import EVENT_HEAD, event_length
from logdrive.services.iggy.server.log.known_ids import Deduplication
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import PollingKind, PollingStrategy
from logdrive.wire.iggy.messages.decode import IggyMessage
from logdrive.wire.iggy.messages.envelope import ENVELOPE_HEAD, StoredMessage
from logdrive.wire.iggy.revision import Revision
from logdrive.wire.s2.errors import S2Error
from logdrive.wire.s2.records import AppendInput, Record, trim_record
from tests.logdrive.services.iggy.server.log.harness import (
    EVERYTHING,
    FIRST,
    OpenedPartition,
    append_foreign,
    messages,
    opened,
    sent,
)
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import EPOCH_MS, VirtualClock, run

LIMITS = StoreLimits(log_file=20_000, group=3000, read_ahead=300, pending=6000, copy=500)
APPEND_BYTES = 1500
WINDOW = Deduplication(entries=10_000, seconds=10_000)
REVISIONS = (Revision.R0, Revision.R1, Revision.R2C, Revision.R3)
REFUSALS = (Reason.IO_ERROR, Reason.CANNOT_APPEND, Reason.PARTITION_NOT_FOUND)


@dataclass(slots=True)
class World:
    """What has been told to anybody, over all lives."""

    # offset -> id, time, payload
    shown: dict[int, tuple[int, int, bytes]] = field(default_factory=dict)
    # offset -> payload of messages that are acknowledged
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    # the largest offset that must be there, and the largest that was the first one
    tail: int = 0
    first: int = 0
    # chosen ids of acknowledged messages that are there once, unless they are deleted
    ids: set[int] = field(default_factory=set)
    # chosen ids of sends that failed, or were not answered
    doubtful: set[int] = field(default_factory=set)
    serial: int = 0

    def copy(self) -> "World":
        return World(
            dict(self.shown),
            dict(self.acknowledged),
            self.tail,
            self.first,
            set(self.ids),
            set(self.doubtful),
            self.serial,
        )

    def see(self, message: IggyMessage) -> None:
        now = (message.id, message.timestamp, message.payload)
        assert self.shown.setdefault(message.offset, now) == now, message.offset
        expected = self.acknowledged.get(message.offset, message.payload)
        assert message.payload == expected, message.offset


def expect_refusal(error: BaseException) -> None:
    """Check that *error* is what a client may be told while a disk fails."""
    assert isinstance(error, IggyError), error
    assert error.reason in REFUSALS, error


class Life:
    """One run of the store, until it dies."""

    def __init__(self, random: Random, disk: MemoryDisk, world: World, *, deletes: bool) -> None:
        self.random, self.disk, self.world, self.deletes = random, disk, world, deletes
        self.death: tuple[MemoryDisk, World] | None = None
        self._dies_in = random.randrange(5, 150) if random.random() < 0.7 else 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[Exception] = []

    async def run(self) -> None:
        faults.on_reach = self._reach
        clean = self.random.random() < 0.3
        try:
            async with running(
                self.disk, LIMITS, delay=self.random.choice((0.0, 0.01)), clean=clean
            ) as store:
                log = await opened(store, WINDOW, APPEND_BYTES)
                s2 = StreamLog(
                    store,
                    log.numbered,
                    clock=VirtualClock(),
                    random=Random(1),
                    settings=LogSettings,
                )
                await self._check(log)
                for _ in range(self.random.randrange(10, 60)):
                    await self._step(log, s2, store)
                    if self.death is not None:
                        break
                else:
                    if self._tasks:
                        await asyncio.wait(self._tasks)
                    await self._check(log)
                    await s2.close()
                    await log.close()
                if not clean:
                    self._die()
                for task in self._tasks:
                    task.cancel()
            if clean:
                self._die()
        finally:
            faults.on_reach = None
        if self._failures:
            raise self._failures[0]

    def _reach(self, _: str) -> None:
        self._dies_in -= 1
        if self._dies_in == 0:
            self._die()

    def _die(self) -> None:
        if self.death is None:
            disk = (
                self.disk.killed() if self.random.random() < 0.3 else self.disk.crash(self.random)
            )
            disk.capacity = None
            self.death = (disk, self.world.copy())

    async def _step(self, log: OpenedPartition, s2: StreamLog, store: Store) -> None:
        choice = self.random.random()
        if choice < 0.4:
            self._start(self._send, log)
        elif choice < 0.5:
            self._start(self._append_s2, s2)
        elif choice < 0.58:
            self._start(self._foreign, store)
        elif choice < 0.7:
            self._start(self._poll, log)
        elif choice < 0.73 and self.deletes:
            self._start(self._truncate, log, store)
        elif choice < 0.75 and self.deletes:
            self._start(self._purge, log)
        elif choice < 0.77 and self.deletes:
            self._start(self._expire, log)
        elif choice < 0.79:
            self._start(self._fill_disk)
        elif choice < 0.94:
            await asyncio.sleep(self.random.choice((0.0, 0.001, 0.01, 0.02)))
        elif self._tasks:
            await asyncio.wait(self._tasks)
            self._tasks.clear()

    def _start(self, step: Callable[..., Coroutine[Any, Any, None]], *used: object) -> None:
        self._tasks.add(asyncio.create_task(self._guard(step, *used)))

    async def _guard(self, step: Callable[..., Coroutine[Any, Any, None]], *used: object) -> None:
        try:
            await step(*used)
        except Exception as error:
            if self.death is None:  # what a dying process does is of no account
                self._failures.append(error)

    def _payload(self) -> bytes:
        self.world.serial += 1
        return b"%06d" % self.world.serial + b"x" * self.random.choice((0, 10, 300))

    def _message(self) -> StoredMessage:
        chosen = 0
        if self.random.random() < 0.4:
            ids = sorted(self.world.ids | self.world.doubtful)
            again = ids and self.random.random() < 0.4
            chosen = self.random.choice(ids) if again else self.world.serial + 1
        return StoredMessage(self._payload(), id=chosen)

    async def _send(self, log: OpenedPartition) -> None:
        world = self.world
        given = [self._message() for _ in range(self.random.randrange(1, 12))]
        known = world.tail
        future = log.submit(sent(*given, revision=self.random.choice(REVISIONS)))
        ids = {message.id for message in given if message.id}
        if self.random.random() < 0.05:
            future.cancel()
            world.doubtful |= ids - world.ids
            return
        (answer,) = await asyncio.gather(future, return_exceptions=True)
        if isinstance(answer, BaseException):
            expect_refusal(answer)
            if self.death is None:
                world.doubtful |= ids - world.ids
            return
        if self.death is not None:
            return
        fresh = [message for message in given if not message.id]
        assert len(fresh) <= answer.messages <= len(given)
        if answer.first_offset is not None:
            assert answer.first_offset >= known
            world.tail = max(world.tail, answer.first_offset + answer.messages)
        size = sum(EVENT_HEAD + ENVELOPE_HEAD + len(message.payload) for message in given)
        if answer.messages == len(given) and size < APPEND_BYTES:
            assert answer.first_offset is not None
            for offset, message in enumerate(given, answer.first_offset):
                assert world.acknowledged.setdefault(offset, message.payload) == message.payload
        world.ids |= ids
        world.doubtful -= ids

    async def _append_s2(self, s2: StreamLog) -> None:
        records = [Record(self._payload()) for _ in range(self.random.randrange(1, 4))]
        if self.random.random() < 0.1 and self.deletes:
            cut = self.random.randrange(self.world.tail + 1)
            records.append(trim_record(cut))
        match = s2.tail().seq_num if self.random.random() < 0.3 else None
        with contextlib.suppress(S2Error):
            ack = await s2.submit(AppendInput(tuple(records), match))
            if self.death is None:
                self.world.tail = max(self.world.tail, ack.end.seq_num)
                assert match is None or ack.start.seq_num == match

    async def _foreign(self, store: Store) -> None:
        with contextlib.suppress(LogdriveError):
            await append_foreign(store, self._payload())

    async def _fill_disk(self) -> None:
        """Let writes fail for a while, after any byte."""
        self.disk.capacity = self.disk.used() + self.random.randrange(1000)
        await asyncio.sleep(0.02)
        self.disk.capacity = None

    async def _truncate(self, log: OpenedPartition, store: Store) -> None:
        """Truncate the segment as another face does: at any event."""
        with contextlib.suppress(LogdriveError):
            info = store.info(SEGMENT)
            assert info is not None
            offset = info.start
            for _ in range(self.random.randrange(8)):
                if offset < info.length:
                    head = store.read(SEGMENT, offset, EVENT_HEAD)
                    offset += EVENT_HEAD + event_length(head)
            await store.truncate(SEGMENT, offset)
            await self._check(log)

    async def _purge(self, log: OpenedPartition) -> None:
        self.world.ids.clear()
        self.world.doubtful.clear()
        await self._patient(log.purge())

    async def _expire(self, log: OpenedPartition) -> None:
        before_ms = EPOCH_MS + self.random.randrange(500)
        await self._patient(log.expire(before_ms))
        with contextlib.suppress(IggyError):
            await self._collect(log, FIRST, EVERYTHING, Revision.R3)

    async def _patient(self, work: Coroutine[Any, Any, object]) -> None:
        try:
            await work
        except IggyError as error:
            expect_refusal(error)

    async def _poll(self, log: OpenedPartition) -> None:
        strategy = PollingStrategy(
            self.random.choice(list(PollingKind)), self.random.randrange(self.world.tail + 5)
        )
        revision = self.random.choice(REVISIONS)
        try:
            await self._collect(log, strategy, self.random.randrange(1, 30), revision)
        except IggyError as error:
            expect_refusal(error)

    async def _collect(
        self, log: OpenedPartition, strategy: PollingStrategy, count: int, revision: Revision
    ) -> list[IggyMessage]:
        first = self.world.first
        found = await messages(log, strategy, count, revision=revision)
        if self.death is None:
            for message in found:
                self.world.see(message)
                self.world.tail = max(self.world.tail, message.offset + 1)
        offsets = [message.offset for message in found]
        assert not offsets or offsets[0] >= first
        assert offsets == list(range(offsets[0], offsets[0] + len(offsets))) if offsets else True
        return found

    async def _check(self, log: OpenedPartition) -> None:
        """Look at everything that is there."""
        tail = self.world.tail
        try:
            found = await self._collect(log, FIRST, EVERYTHING, Revision.R2C)
            figures = await log.figures()
        except IggyError as error:
            expect_refusal(error)
            return
        if self.death is not None:
            return
        first = figures.first_offset
        self.world.first = max(self.world.first, first)
        if not self.deletes:
            assert first == 0
            assert self.world.ids <= {message.id for message in found}
        assert figures.first_offset + figures.messages >= tail
        assert figures.current_offset == max(0, figures.first_offset + figures.messages - 1)
        there = {message.offset: message.payload for message in found}
        for offset, payload in self.world.acknowledged.items():
            if offset >= first:
                assert there[offset] == payload, offset
        chosen = [message.id for message in found if message.id in self.world.ids]
        assert len(chosen) == len(set(chosen)), "an id is there twice"


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_what_was_shown_holds_whatever_happens(seed: int, deletes: bool) -> None:
    async def main() -> None:
        random = Random(seed)
        disk, world = MemoryDisk(), World()
        for _ in range(random.randrange(2, 6)):
            life = Life(random, disk, world, deletes=deletes)
            await life.run()
            assert life.death is not None
            disk, world = life.death

    run(main())
