"""Random histories of a table with power cuts and kills at any step, compared with a dict.

After each crash the table must have the result of a prefix of all changes, only whole ones, with at
least all that were acknowledged; and it must go on from there, whatever was compacted meanwhile.
The order of changes is that in the log: those under way at one time may overtake each other while
the index is loaded anew, and no client is told otherwise.
"""

import asyncio
import contextlib
import errno
from collections import deque
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from random import Random

import pytest

from logdrive.errors import TransientError
from logdrive.host import faults
from logdrive.services.pravega.server.tables.entries import TableChange
from logdrive.services.pravega.server.tables.errors import KeyNotThereError, KeyVersionError
from logdrive.services.pravega.server.tables.limits import TableLimits
from logdrive.services.pravega.server.tables.table import KeyTable
from logdrive.services.pravega.server.tables.tables import Tables
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.wire.pravega.tables import NOT_THERE, TableEntry, TableKey
from tests.logdrive.store.harness import running
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

T = "g/t_kvtable/0.#epoch.0"
KEYS = [bytes([97 + n]) * (1 + n % 3) for n in range(8)]
LIMITS = StoreLimits(log_file=3000, group=800, read_ahead=300)
TABLE_LIMITS = TableLimits(page=120, entry=400, compact_from=500, keys=100)

Step = dict[bytes, bytes | None]
"""One batch: keys and their new values, None where they go."""


def after(steps: Sequence[Step]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes | None] = {}
    for step in steps:
        found.update(step)
    return {key: value for key, value in found.items() if value is not None}


@dataclass
class History:
    """Changes acknowledged, changes under way, and those that failed since, which a crash may
    keep in the order of their submission.
    """

    durable: list[Step] = field(default_factory=list)
    ahead: list[Step] = field(default_factory=list)
    failed: list[Step] = field(default_factory=list)

    def copy(self) -> "History":
        return History(copy(self.durable), copy(self.ahead), copy(self.failed))

    def possible(self) -> Iterator[list[Step]]:
        for count in range(len(self.ahead) + 1):
            yield self.durable + self.ahead[:count]
        for first in range(len(self.failed)):
            for last in range(first, len(self.failed)):
                yield self.durable + self.failed[first : last + 1]


class Watched(Tables):
    """Tables that record the order in which changes go to the log."""

    def __init__(self, store: Store, life: "Life") -> None:
        super().__init__(store, TABLE_LIMITS)
        self._life = life

    async def _checked_changes(
        self, table: KeyTable, keys: Sequence[TableKey], values: Sequence[bytes] | None, at: int
    ) -> list[TableChange]:
        changes = await super()._checked_changes(table, keys, values, at)
        self._life.ordered(asyncio.current_task())
        return changes


class Life:
    """One run of the store from open to death."""

    def __init__(self, random: Random, disk: MemoryDisk, history: History) -> None:
        self.random, self.disk, self.history = random, disk, history
        self.death: tuple[MemoryDisk, History] | None = None
        self._dies_in = random.randrange(1, 80) if random.random() < 0.7 else 0
        self._waiting: deque[asyncio.Task[object]] = deque()
        self._placed: dict[asyncio.Task[object], None] = {}

    async def run(self) -> None:
        faults.on_reach = self._reach
        clean = self.random.random() < 0.2
        try:
            async with running(
                self.disk, LIMITS, delay=self.random.choice((0.0, 0.01)), clean=clean
            ) as store:
                tables = Watched(store, self)
                await self._found(tables)
                for _ in range(self.random.randrange(5, 60)):
                    await self._step(tables)
                    if self.death is not None:
                        return
                if not clean:
                    self._die()
                else:
                    await self._all()
            self._die()
        finally:
            faults.on_reach = None
            for task in self._waiting:
                task.cancel()

    async def _found(self, tables: Tables) -> None:
        await tables.create_table(T)
        found = await self._everything(tables)
        matching = [steps for steps in self.history.possible() if after(steps) == found]
        assert matching, f"no history leaves this: {found}, not {self.history}"
        self.history = History(matching[0])

    async def _everything(self, tables: Tables) -> dict[bytes, bytes]:
        """Read the table in all three ways, which must agree."""
        found: dict[bytes, bytes] = {}
        last = b""
        while entries := await tables.list_entries(T, last, b"", b"", 3):
            last = entries[-1].key.key
            found |= {entry.key.key: entry.value for entry in entries}
        assert list(found) == sorted(found)
        got = await tables.get_entries(T, [TableKey(key) for key in KEYS])
        assert {
            entry.key.key: entry.value for entry in got if entry.key.version != NOT_THERE
        } == found
        walked: dict[bytes, bytes] = {}
        position = (await tables.table_info(T)).start
        while True:
            delta = await tables.read_delta(T, position, 4)
            walked |= {entry.key.key: entry.value for entry in delta.entries}
            position = delta.position
            if delta.reached_end:
                break
        assert found.items() <= walked.items()  # what was removed in a later piece is still in it
        return found

    def _reach(self, name: str) -> None:
        self._dies_in -= 1
        if self._dies_in == 0:
            self._die()

    def _die(self) -> None:
        if self.death is None:
            self._look()
            disk = (
                self.disk.killed() if self.random.random() < 0.3 else self.disk.crash(self.random)
            )
            self.death = (disk, self.history.copy())

    def ordered(self, task: "asyncio.Task[object] | None") -> None:
        """Put the change of *task* right behind those whose position in the log is decided."""
        assert task is not None
        at = self._waiting.index(task)
        step = self.history.ahead.pop(at)
        del self._waiting[at]
        self._placed.pop(task, None)
        place = sum(one in self._placed for one in self._waiting)
        self._waiting.insert(place, task)
        self.history.ahead.insert(place, step)
        self._placed[task] = None

    def _look(self) -> None:
        """Record what became of the changes submitted."""
        while self._waiting and self._waiting[0].done():
            task, step = self._waiting.popleft(), self.history.ahead.pop(0)
            error = task.exception()
            if error is None:
                self.history.durable.append(step)
                self.history.failed.clear()
            else:
                assert isinstance(error, TransientError)
                self.history.failed.append(step)

    async def _all(self) -> None:
        if self._waiting:
            await asyncio.wait(self._waiting)
        self._look()

    async def _step(self, tables: Tables) -> None:
        choice = self.random.random()
        if choice < 0.6:
            self._submit(tables)
            await asyncio.sleep(0)
        elif choice < 0.63:
            self.disk.fail_write(errno.ENOSPC, after=self.random.choice((0, 1, 64, 100, 300)))
        elif choice < 0.75:
            await asyncio.sleep(self.random.choice((0.001, 0.01, 0.02)))
        elif choice < 0.85:
            await tables.compact_table(T)
        else:
            await self._conditional(tables)
        self._look()

    def _submit(self, tables: Tables) -> None:
        keys = self.random.sample(KEYS, self.random.randrange(1, 4))
        step: Step = {key: self.random.randbytes(self.random.choice((0, 5, 60))) for key in keys}
        if self.random.random() < 0.3:
            step = dict.fromkeys(keys)
            self._task(tables.remove_keys(T, [TableKey(key) for key in keys]), step)
        else:
            self._task(
                tables.put_entries(
                    T,
                    [
                        TableEntry(TableKey(key), value)
                        for key, value in step.items()
                        if value is not None
                    ],
                ),
                step,
            )

    def _task(self, change: "asyncio._CoroutineLike[object]", step: Step) -> None:
        self._waiting.append(asyncio.ensure_future(change))  # type: ignore[arg-type]
        self.history.ahead.append(step)

    async def _conditional(self, tables: Tables) -> None:
        """Versions decide; an answer has only what is durable and was acknowledged."""
        await self._all()
        if self.death is not None:
            return
        state = after(self.history.durable)
        with contextlib.suppress(TransientError):
            key = self.random.choice(KEYS)
            (found,) = await tables.get_entries(T, [TableKey(key)])
            assert (found.value if found.key.version != NOT_THERE else None) == state.get(key)
            wrong = TableKey(key, 1 << 50)
            with pytest.raises(KeyVersionError if key in state else KeyNotThereError):
                await tables.put_entries(
                    T, [TableEntry(TableKey(b"new"), b""), TableEntry(wrong, b"wrong")]
                )
            self._task(
                tables.put_entries(T, [TableEntry(TableKey(key, found.key.version), b"right")]),
                {key: b"right"},
            )
            await self._all()


@pytest.mark.parametrize("seed", [*range(60), 7151])
def test_after_any_crash_a_table_has_what_it_acknowledged_and_only_whole_batches(
    seed: int,
) -> None:
    async def main() -> None:
        random = Random(seed)
        disk, history = MemoryDisk(), History()
        for _ in range(6):
            life = Life(random, disk, history)
            await life.run()
            assert life.death is not None
            disk, history = life.death

    run(main())
