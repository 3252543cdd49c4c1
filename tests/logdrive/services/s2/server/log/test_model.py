"""Random lives of a stream, ended by power cuts and kills, against a linearizable log.

S2 clients append with and without conditions, fence, trim and read; other faces append, merge and
truncate, all at once. What was shown once, a number with its time and body, must hold for ever.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

import pytest

from logdrive.errors import LogdriveError
from logdrive.host import faults
from logdrive.model.framing import EVENT_HEAD, event_length, frame_event
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.stream_log import StreamLog
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.wire.s2.errors import (
    FencingTokenMismatchError,
    RangeNotSatisfiableError,
    S2Error,
    SeqNumMismatchError,
)
from logdrive.wire.s2.protobuf import decode_read_batch
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import (
    AppendInput,
    Fence,
    Record,
    command_of,
    fence_record,
    trim_record,
)
from tests.logdrive.services.s2.server.log.harness import append_raw, opened
from tests.logdrive.store.harness import SEGMENT, running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

LIMITS = StoreLimits(log_file=20_000, group=3000, read_ahead=300, pending=6000, copy=500)
OTHER = "transaction"


@dataclass(slots=True)
class World:
    """What has been told to anybody, over all lives."""

    # number -> time, body, headers
    shown: dict[int, tuple[int, bytes, Any]] = field(default_factory=dict)
    # bodies that must be somewhere, with their number where it was told
    acked: dict[int, bytes] = field(default_factory=dict)
    # fencing tokens of appends that were done, by the number of their first record
    tokens: dict[int, str] = field(default_factory=dict)
    foreign: set[bytes] = field(default_factory=set)
    # bodies that must be nowhere
    refused: set[bytes] = field(default_factory=set)
    # the largest number that a trim may have given, and whether others may have truncated
    cut: int = 0
    truncated: bool = False
    tail: int = 0
    # the largest number that was shown as the first one
    first: int = 0
    serial: int = 0

    def copy(self) -> "World":
        return World(
            dict(self.shown),
            dict(self.acked),
            dict(self.tokens),
            set(self.foreign),
            set(self.refused),
            self.cut,
            self.truncated,
            self.tail,
            self.first,
            self.serial,
        )

    def see(self, seq_num: int, timestamp: int, body: bytes, headers: Any) -> None:
        # a time may rest on that of a record which another face has truncated
        now = (0 if self.truncated else timestamp, body, headers)
        before = self.shown.setdefault(seq_num, now)
        assert before[1:] == now[1:], seq_num
        assert self.truncated or before == now, seq_num
        assert body not in self.refused


class Life:
    """One run of the store, until it dies."""

    def __init__(self, random: Random, disk: MemoryDisk, world: World, *, merges: bool) -> None:
        self.random, self.disk, self.world, self.merges = random, disk, world, merges
        self.death: tuple[MemoryDisk, World] | None = None
        self._dies_in = random.randrange(5, 120) if random.random() < 0.7 else 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failures: list[Exception] = []

    async def run(self) -> None:
        faults.on_reach = self._reach
        clean = self.random.random() < 0.3
        try:
            async with running(
                self.disk, LIMITS, delay=self.random.choice((0.0, 0.01)), clean=clean
            ) as store:
                uncapped = self.random.random() < 0.5
                log = await opened(store, LogSettings(uncapped=uncapped))
                await self._check(log)
                for _ in range(self.random.randrange(10, 60)):
                    await self._step(log, store)
                    if self.death is not None:
                        break
                else:
                    if self._tasks:
                        await asyncio.wait(self._tasks)
                    await self._check(log)
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

    async def _step(self, log: StreamLog, store: Store) -> None:
        choice = self.random.random()
        if choice < 0.45:
            self._start(self._append, log)
        elif choice < 0.6:
            self._start(self._foreign, store)
        elif choice < 0.65 and self.merges:
            self._start(self._merge, store)
        elif choice < 0.72:
            self._start(self._read, log)
        elif choice < 0.76 and not self.merges:  # both, and a crash: see docs/adr/0024
            self._start(self._truncate, log, store)
        elif choice < 0.78:
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

    def _body(self) -> bytes:
        self.world.serial += 1
        return b"%06d" % self.world.serial + b"x" * self.random.choice((0, 10, 300))

    def _record(self) -> Record:
        headers = ((b"h", b"v"),) if self.random.random() < 0.3 else ()
        timestamp = 1_700_000_000_000 + self.random.randrange(-50, 50)
        return Record(self._body(), headers, timestamp if self.random.random() < 0.3 else None)

    async def _append(self, log: StreamLog) -> None:
        random, tail = self.random, log.tail().seq_num
        records = [self._record() for _ in range(random.randrange(1, 4))]
        if random.random() < 0.15:
            records.append(fence_record(random.choice(("", "a", "b"))))
        if random.random() < 0.15:
            records.append(trim_record(random.randrange(max(0, tail - 20), tail + 5)))
            self.world.cut = max(self.world.cut, int.from_bytes(records[-1].body))
        match = tail + random.choice((0, 0, 0, 1, 3)) if random.random() < 0.4 else None
        token = random.choice(("", "a", "b")) if random.random() < 0.3 else None
        data = {record.body for record in records if command_of(record) is None}
        given = AppendInput(tuple(records), match, token)
        known = self.world.tail
        future = log.submit(given)
        if random.random() < 0.05:
            future.cancel()
            return
        (ack,) = await asyncio.gather(future, return_exceptions=True)
        if isinstance(ack, SeqNumMismatchError):
            self._refused(data)
            assert ack.seq_num != match
            assert ack.seq_num >= known
        elif isinstance(ack, FencingTokenMismatchError):
            self._refused(data)
            assert ack.token != token
        elif isinstance(ack, S2Error):
            assert ack.code in ("storage", "unavailable", "hot_server"), ack
            if ack.code == "hot_server":
                self._refused(data)
        if isinstance(ack, BaseException) or self.death is not None:
            return
        assert ack.end.seq_num - ack.start.seq_num == len(records)
        assert match is None or match == ack.start.seq_num
        assert ack.start.seq_num >= known
        assert ack.tail.seq_num >= ack.end.seq_num
        if token is not None:
            self.world.tokens[ack.start.seq_num] = token
        self.world.tail = max(self.world.tail, ack.tail.seq_num)
        assert log.tail().seq_num >= self.world.tail
        for seq_num, record in enumerate(records, ack.start.seq_num):
            assert self.world.acked.setdefault(seq_num, record.body) == record.body

    def _refused(self, data: set[bytes]) -> None:
        if self.death is None:
            self.world.refused |= data

    async def _foreign(self, store: Store) -> None:
        payload = self._body()
        with contextlib.suppress(LogdriveError):
            await append_raw(store, frame_event(payload))
            if self.death is None:
                self.world.foreign.add(payload)

    async def _merge(self, store: Store) -> None:
        with contextlib.suppress(LogdriveError):
            await store.create(OTHER)
            payload = self._body()
            await store.append(
                OTHER, frame_event(payload), writer=UUID(int=5), expected=None, number=1, events=1
            )
            await store.merge(SEGMENT, OTHER)
            if self.death is None:
                self.world.foreign.add(payload)

    async def _fill_disk(self) -> None:
        """Let writes fail for a while, after any byte."""
        self.disk.capacity = self.disk.used() + self.random.randrange(1000)
        await asyncio.sleep(0.02)
        self.disk.capacity = None

    async def _truncate(self, log: StreamLog, store: Store) -> None:
        """Truncate the segment as another face does: at any event."""
        with contextlib.suppress(LogdriveError):
            info = store.info(SEGMENT)
            assert info is not None
            offset = info.start
            for _ in range(self.random.randrange(8)):
                if offset < info.length:
                    head = store.read(SEGMENT, offset, EVENT_HEAD)
                    offset += EVENT_HEAD + event_length(head)
            self.world.truncated = True
            await store.truncate(SEGMENT, offset)
            await self._check(log)

    async def _read(self, log: StreamLog) -> None:
        query = ReadQuery(
            seq_num=self.random.randrange(log.tail().seq_num + 1),
            count=self.random.randrange(1, 30),
        )
        try:
            await self._collect(log, query)
        except S2Error as error:
            if error.status != 416 and error.code not in ("storage", "unavailable"):
                raise

    async def _collect(self, log: StreamLog, query: ReadQuery) -> list[tuple[int, int, bytes, Any]]:
        reading = await log.read(query)
        found: list[tuple[int, int, bytes, Any]] = []
        known = self.world.first
        async for chunk in reading:
            if self.death is None:
                for r in decode_read_batch(chunk.batch).records:
                    found.append((r.seq_num, r.timestamp, r.body, r.headers))
                    self.world.see(*found[-1])
                    self.world.tail = max(self.world.tail, r.seq_num + 1)
        numbers = [seq_num for seq_num, *_ in found]
        assert not numbers or numbers[0] >= known
        assert numbers == sorted(set(numbers))
        return found

    async def _check(self, log: StreamLog) -> None:
        """Compare everything that is there with everything that was told."""
        await log.sync()
        if self.death is not None:
            return
        world = self.world
        assert log.tail().seq_num >= world.tail
        world.tail = log.tail().seq_num
        first = log.first_retained.seq_num
        assert first >= world.first
        world.first = first
        found: list[tuple[int, int, bytes, Any]] = []
        with contextlib.suppress(RangeNotSatisfiableError):
            found = await self._collect(log, ReadQuery(seq_num=0, count=1 << 40))
        if self.death is not None or log.first_retained.seq_num != first:
            return
        if found:
            assert [seq_num for seq_num, *_ in found] == list(range(first, found[-1][0] + 1))
        times = [timestamp for _, timestamp, *_ in found]
        assert times == sorted(times)
        bodies = {seq_num: body for seq_num, _, body, _ in found}
        for seq_num, body in world.acked.items():
            assert seq_num < first or bodies[seq_num] == body, seq_num
        data = [body for _, _, body, headers in found if not (headers and not headers[0][0])]
        assert len(set(data)) == len(data)
        assert world.truncated or first <= world.cut
        self._check_tokens(log, found, "" if first == 0 else None)

    def _check_tokens(
        self, log: StreamLog, found: list[tuple[int, int, bytes, Any]], token: str | None
    ) -> None:
        """Check that each append was done while its token was in force, which at first is *token*.

        None: it is not known.
        """
        for seq_num, _, body, headers in found:
            if token is not None and seq_num in self.world.tokens:
                assert self.world.tokens[seq_num] == token, seq_num
            command = command_of(Record(body, headers))
            token = command.token if isinstance(command, Fence) else token
        if found and token is not None and log.tail().seq_num == found[-1][0] + 1:
            assert log.view.token == token


@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("seed", range(80))
def test_what_was_shown_holds_whatever_happens(seed: int, merges: bool) -> None:
    async def main() -> None:
        random = Random(seed)
        disk, world = MemoryDisk(), World()
        for _ in range(random.randrange(2, 6)):
            life = Life(random, disk, world, merges=merges)
            await life.run()
            assert life.death is not None
            disk, world = life.death

    run(main())
