"""Random lives of a store, ended by power cuts and kills, compared with a model that is a list.

After each death the store must hold the result of a prefix of all submitted changes, whole ones
only, with at least all that were acknowledged, and must go on from there.
"""

import asyncio
import contextlib
import errno
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.host import faults
from logdrive.model.numbers import ABSENT
from logdrive.store.engine import Store
from logdrive.store.errors import (
    NoSuchSegmentError,
    NumberMismatchError,
    OffsetMismatchError,
    SegmentSealedError,
    SegmentTruncatedError,
)
from logdrive.store.limits import StoreLimits
from logdrive.store.verify.verify import verify
from tests.logdrive.store.harness import PATH, running
from tests.logdrive.store.model import Kind, Ledger, SegmentState, State, Submitted, after, state_of
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

WRITERS = [UUID(int=n) for n in range(1, 5)]
SEGMENTS = ["a/b/0", "a/b/1", "c"]
INDEX = f"{PATH}/index"
LIMITS = StoreLimits(
    log_file=3000, group=800, read_ahead=300, open_files=2, copy=200, page=36, pages=2, numbers=1
)


class Life:
    """One run of the store from open to death.

    The next change is checked against the model's state, pending changes included.
    """

    def __init__(self, random: Random, disk: MemoryDisk, ledger: Ledger) -> None:
        self.random = random
        self.disk = disk
        self.ledger = ledger
        self.passed: set[str] = set()
        self.death: tuple[MemoryDisk, Ledger] | None = None
        self._dies_in = random.randrange(1, 60) if random.random() < 0.7 else 0
        self._waiting: deque[asyncio.Future[Any]] = deque()

    async def run(self) -> None:
        faults.on_reach = self._reach
        if any("/log-" in path for path in self.disk.paths()):
            damages = verify(self.disk, PATH).damages
            assert all(
                "the index" in damage.reason and self._may_be_spoilt(damage.file)
                for damage in damages
            ), damages
        self._spoil()
        clean = self.random.random() < 0.2
        try:
            async with running(
                self.disk, LIMITS, delay=self.random.choice((0.0, 0.01)), clean=clean
            ) as store:
                found = state_of(store, WRITERS)
                self.ledger.steps = self.ledger.matching(found)
                self.ledger.acknowledged = len(self.ledger.steps)
                self.ledger.failed.clear()
                for _ in range(self.random.randrange(5, 40)):
                    await self._step(store)
                    if self.death is not None:
                        return
                if not clean:
                    self._die()
            if clean:
                self._look()
                assert not self._waiting
                self._die()
        finally:
            faults.on_reach = None

    def _spoil(self) -> None:
        """Flip a bit of the newer index or of one copy of a paged file, or remove it."""
        there = [
            path
            for path in self.disk.paths()
            if self._may_be_spoilt(path) and self.disk.stat(path).size
        ]
        for path in there:
            if self.random.random() < 0.1:
                self.disk.flip_bit(path, self.random.randrange(self.disk.stat(path).size))
            elif path != INDEX and self.random.random() < 0.05:
                self.disk.remove(path)

    def _may_be_spoilt(self, path: str) -> bool:
        return path == INDEX or path.endswith(".a")

    def _reach(self, name: str) -> None:
        """Die when a fault point is passed: whatever follows does not reach this disk."""
        self.passed.add(name)
        self._dies_in -= 1
        if self._dies_in == 0:
            self._die()

    def _die(self) -> None:
        if self.death is None:
            self._look()
            disk = (
                self.disk.killed() if self.random.random() < 0.3 else self.disk.crash(self.random)
            )
            self.death = (disk, self.ledger.copy())

    async def _step(self, store: Store) -> None:
        self._look()
        choice = self.random.random()
        steps: list[tuple[float, Callable[[Store], object]]] = [
            (0.48, self._append),
            (0.54, self._create),
            (0.58, self._update),
            (0.60, self._seal),
            (0.66, self._truncate),
            (0.68, self._delete),
            (0.72, self._merge),
            (0.76, self._refused),
            (0.78, self._trouble),
        ]
        for bound, step in steps:
            if choice < bound:
                step(store)
                return
        if choice < 0.82:
            await self._ask(store)
        elif choice < 0.9:
            await asyncio.sleep(self.random.choice((0.001, 0.01, 0.02)))
        elif self._waiting:
            with contextlib.suppress(TransientError):
                await self.random.choice(self._waiting)

    def _state(self) -> State:
        return after(self.ledger.steps)

    def _open_segment(self) -> tuple[str, SegmentState] | None:
        state = self._state()
        there = [name for name in SEGMENTS if name in state and not state[name].sealed]
        return (name := self.random.choice(there), state[name])[0:2] if there else None

    def _submit(self, step: Submitted, future: "asyncio.Future[Any]") -> None:
        self.ledger.steps.append(step)
        self._waiting.append(future)

    def _look(self) -> None:
        """Process the results of what was submitted.

        (A future's callbacks come one turn too late for that.)
        """
        while self._waiting and self._waiting[0].done():
            future = self._waiting.popleft()
            if future.cancelled() or future.exception() is None:
                self.ledger.acknowledge()
            else:
                assert all(later.done() for later in self._waiting)
                self._waiting.clear()
                self.ledger.fail()

    def _append(self, store: Store) -> None:
        if (target := self._open_segment()) is None:
            return
        name, state = target
        writer = self.random.choice(WRITERS)
        current = state.number(writer)
        number = max(current, 0) + self.random.randrange(1, 100)
        data = self.random.randbytes(self.random.choice((0, 1, 20, 200, 700)))
        cut = self.random.randrange(len(data) + 1)
        events = self.random.randrange(1, 5)
        offset = len(state.content) if self.random.random() < 0.2 else None
        future = store.append(
            name,
            [data[:cut], data[cut:]],
            writer=writer,
            expected=current,
            number=number,
            events=events,
            expected_offset=offset,
        )
        self._submit(Submitted(Kind.APPEND, name, data, writer, number, events), future)

    def _create(self, store: Store) -> None:
        name = self.random.choice(SEGMENTS)
        future = store.create(name)
        if name not in self._state():
            self._submit(Submitted(Kind.CREATE, name), future)

    def _update(self, store: Store) -> None:
        if (target := self._open_segment()) is not None:
            name, state = target
            writer, value = self.random.choice(WRITERS), self.random.choice((ABSENT, -1, 5, 1000))
            future = store.update(name, writer, state.number(writer), value)
            self._submit(Submitted(Kind.UPDATE, name, writer=writer, number=value), future)

    def _seal(self, store: Store) -> None:
        if (target := self._open_segment()) is not None and self.random.random() < 0.3:
            self._submit(Submitted(Kind.SEAL, target[0]), store.seal(target[0]))

    def _truncate(self, store: Store) -> None:
        state = self._state()
        if not state:
            return
        name = self.random.choice(sorted(state))
        segment = state[name]
        offset = self.random.choice(
            (
                segment.start,
                len(segment.content),
                self.random.randint(segment.start, len(segment.content)),
            )
        )
        future = store.truncate(name, offset)
        if offset != segment.start:
            self._submit(Submitted(Kind.TRUNCATE, name, start=offset), future)

    def _delete(self, store: Store) -> None:
        state = self._state()
        if state and self.random.random() < 0.5:
            name = self.random.choice(sorted(state))
            self._submit(Submitted(Kind.DELETE, name), store.delete(name))

    def _merge(self, store: Store) -> None:
        state = self._state()
        sources = sorted(name for name, segment in state.items() if not segment.start)
        if (target := self._open_segment()) is None or not sources:
            return
        source = self.random.choice(sources)
        if source == target[0]:
            with pytest.raises(ValueError, match="into itself"):
                store.merge(source, source)
            return
        self._submit(
            Submitted(Kind.MERGE, target[0], source=source), store.merge(target[0], source)
        )

    def _refused(self, store: Store) -> None:
        state = self._state()
        for name, segment in state.items():
            writer = self.random.choice(WRITERS)
            for offset in (segment.start - 1, len(segment.content) + 1):
                with pytest.raises(SegmentTruncatedError) as cut:
                    store.truncate(name, offset)
                assert cut.value.start == segment.start
            current = segment.number(writer)
            if segment.sealed:
                with pytest.raises(SegmentSealedError):
                    store.append(
                        name, b"x", writer=writer, expected=current, number=current + 1, events=1
                    )
                continue
            with pytest.raises(NumberMismatchError) as refused:
                store.append(
                    name, b"x", writer=writer, expected=current + 3, number=current + 4, events=1
                )
            assert refused.value.current == current
            with pytest.raises(OffsetMismatchError) as elsewhere:
                store.append(
                    name,
                    b"x",
                    writer=writer,
                    expected=current,
                    number=current + 1,
                    events=1,
                    expected_offset=1 << 40,
                )
            assert elsewhere.value.current == len(segment.content)

    def _trouble(self, store: Store) -> None:
        self.disk.fail_write(errno.ENOSPC, after=self.random.choice((0, 1, 64, 100, 1000)))

    async def _ask(self, store: Store) -> None:
        """Answers are durable, and agree with what was acknowledged."""
        for name in store.segments():
            try:
                told = {writer: await store.number(name, writer) for writer in WRITERS}
            except NoSuchSegmentError:
                self._look()
                assert name not in after(self.ledger.steps[: self.ledger.acknowledged])
                continue
            self._look()
            found = state_of(store, WRITERS)[name]
            assert {
                writer: number for writer, number in told.items() if number != ABSENT
            } == found.numbers
            assert (
                found.content == after(self.ledger.steps[: self.ledger.acknowledged])[name].content
            )


@pytest.mark.parametrize("seed", range(60))
def test_a_store_holds_what_it_acknowledged_and_nothing_by_halves_after_any_crash(
    seed: int,
) -> None:
    _live(seed, set())


def _live(seed: int, passed: set[str]) -> None:
    async def main() -> None:
        random = Random(seed)
        disk, ledger = MemoryDisk(), Ledger()
        for _ in range(6):
            life = Life(random, disk, ledger)
            await life.run()
            assert life.death is not None
            disk, ledger = life.death
            passed.update(life.passed)

    run(main())


def test_those_lives_pass_all_of_the_stores_fault_points() -> None:
    passed: set[str] = set()
    for seed in range(20):
        _live(seed, passed)
    assert passed == {point for point in faults.POINTS if point.startswith("store.")}
