"""Random lives of streams, ended by power cuts and kills, compared with a store that never dies.

Each operation is done as a whole or not at all. After each death the streams and their segments are
as on the other store after all operations that were answered, or also the one under way.
"""

import contextlib
import errno
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.host import faults
from logdrive.services.pravega.server.streams.kv_tables import KeyValueTables
from logdrive.services.pravega.server.streams.reader_groups import ReaderGroups
from logdrive.services.pravega.server.streams.watermarks import Watermarks
from logdrive.services.pravega.server.streams.writer_times import WriterTimes
from logdrive.store.streams import key_ranges as layout
from logdrive.store.streams.errors import StreamsError
from logdrive.store.streams.journal import SEGMENT
from logdrive.store.streams.state import KeyValueTable, ReaderGroup, StreamConfig, StreamCut
from logdrive.wire.pravega.attributes import TABLE
from logdrive.wire.pravega.names import segment_name, transaction_name
from tests.logdrive.store.streams.harness import Rig, rig
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

SCOPES, STREAMS = ["a", "a", "a", "b"], ["x", "x", "y"]


@dataclass(frozen=True, slots=True)
class Operation:
    kind: str
    scope: str
    stream: str
    choice: float


WEIGHTS = {
    "scope": 4,
    "unscope": 1,
    "create": 4,
    "configure": 2,
    "scale": 5,
    "widen": 2,
    "narrow": 1,
    "seal": 1,
    "delete": 2,
    "cut": 4,
    "write": 8,
    "raw": 1,
    "begin": 6,
    "write_in": 8,
    "commit": 5,
    "abort": 3,
    "group": 2,
    "has_read": 2,
    "ungroup": 1,
    "note": 4,
    "leave": 1,
    "watermark": 3,
    "map": 2,
    "unmap": 1,
}


def chosen(random: Random) -> Operation:
    (kind,) = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
    return Operation(kind, random.choice(SCOPES), random.choice(STREAMS), random.random())


async def keys_of(there: Rig, scope: str, stream: str) -> list[str]:
    async with there.catalog.turn():
        return list((await there.catalog.stream_state(scope, stream)).transactions)


async def perform(there: Rig, op: Operation) -> None:
    """Do *op*, depending only on the state: the same on every store in that state."""
    streams, where = there.streams, (op.scope, op.stream)
    match op.kind:
        case "scope":
            await streams.create_scope(op.scope)
        case "unscope":
            await streams.delete_scope(op.scope)
        case "create":
            await streams.create(*where, StreamConfig(min_segments=1 + int(op.choice * 3)))
        case "configure":
            await streams.configure(*where, StreamConfig(tags=(str(op.choice),)))
        case "seal":
            await streams.seal(*where)
        case "delete":
            await streams.delete(*where)
        case "begin":
            await there.transactions.begin_transaction(*where, 1000)
        case "scale" | "widen" | "narrow":
            await scale(there, op)
        case kind if kind in BESIDE:
            await BESIDE[kind](there, op)
        case "cut" | "write" | "raw":
            await to_segments(there, op)
        case _:
            await in_transaction(there, op)


async def grouped(there: Rig, op: Operation) -> None:
    groups, name = ReaderGroups(there.catalog), op.stream
    if op.kind == "group":
        await groups.create_group(
            op.scope,
            name,
            ReaderGroup(
                id=str(op.choice), retention_type=1, starting=(StreamCut(op.scope, op.stream),)
            ),
        )
        return
    made = await groups.get_group(op.scope, name)
    if op.kind == "ungroup":
        await groups.delete_group(op.scope, name, made.id)
    else:
        head = await there.streams.cut_at(op.scope, op.stream)
        await groups.update_read_cut(
            f"{op.scope}/{name}", made.id, made.generation, op.scope, op.stream, head
        )


async def timed(there: Rig, op: Operation) -> None:
    writer, where = "ab"[op.choice < 0.5], (op.scope, op.stream)
    if op.kind == "note":
        now = layout.current_segments(await there.streams.stream(*where))
        infos = {segment.id: there.store.info(segment_name(*where, segment.id)) for segment in now}
        ends = {number: info.length for number, info in infos.items() if info is not None}
        await WriterTimes(there.catalog).note_time(*where, writer, int(op.choice * 1000), ends)
    elif op.kind == "leave":
        await WriterTimes(there.catalog).remove_writer(*where, writer)
    else:
        await Watermarks(there.catalog).advance_stream(*where)


async def mapped(there: Rig, op: Operation) -> None:
    maps = KeyValueTables(there.catalog)
    if op.kind == "map":
        await maps.create_kv_table(op.scope, op.stream, KeyValueTable(1 + int(op.choice * 3), 8))
    else:
        await maps.delete_kv_table(op.scope, op.stream)


BESIDE: dict[str, Callable[[Rig, Operation], Awaitable[None]]] = {
    **dict.fromkeys(("group", "has_read", "ungroup"), grouped),
    **dict.fromkeys(("map", "unmap"), mapped),
    **dict.fromkeys(("note", "leave", "watermark"), timed),
}
"""What is done to things beside streams."""


async def to_segments(there: Rig, op: Operation) -> None:
    where = (op.scope, op.stream)
    if op.kind == "raw":
        async with there.catalog.turn() as state:
            known = op.scope in state.scopes and op.stream in state.scopes[op.scope].streams
        if not known:
            await there.store.create(segment_name(*where, 0))
        return
    stream = await there.streams.stream(*where)
    if op.kind == "cut":
        epoch = int(op.choice * len(stream.epochs))
        found = [
            (s, there.store.info(segment_name(*where, s.id)))
            for s in layout.segments_in_epoch(stream, epoch)
        ]
        await there.streams.truncate(
            *where, {s.id: int(info.length * op.choice) for s, info in found if info is not None}
        )
    elif now := layout.open_segments(stream):
        await there.write(
            segment_name(*where, now[int(op.choice * len(now))].id), f"{op.choice:.4f} ".encode()
        )


async def scale(there: Rig, op: Operation) -> None:
    if op.kind == "widen":
        await there.streams.add_segments(op.scope, op.stream, 1 + int(op.choice * 2))
        return
    if op.kind == "narrow":
        await narrow(there, op)
        return
    now = layout.current_segments(await there.streams.stream(op.scope, op.stream))
    if len(now) > 3:
        await there.streams.scale(op.scope, op.stream, [s.id for s in now], [(0.0, 1.0)])
    elif now:
        split = now[int(op.choice * len(now))]
        middle = (split.low + split.high) / 2
        await there.streams.scale(
            op.scope, op.stream, [split.id], [(split.low, middle), (middle, split.high)]
        )


async def narrow(there: Rig, op: Operation) -> None:
    stream = await there.streams.stream(op.scope, op.stream)
    added = [s.id for s in stream.segments if not layout.has_keys(s)]
    await there.streams.remove_segments(op.scope, op.stream, added[int(op.choice * len(added)) :])


async def in_transaction(there: Rig, op: Operation) -> None:
    keys = await keys_of(there, op.scope, op.stream)
    if not keys:
        return
    key = UUID(hex=keys[int(op.choice * len(keys))])
    if op.kind == "commit":
        await there.transactions.commit_transaction(op.scope, op.stream, key)
    elif op.kind == "abort":
        await there.transactions.abort_transaction(op.scope, op.stream, key)
    else:
        found = await there.transactions.get_transaction(op.scope, op.stream, key)
        if found.status == "open":
            parent = found.segments[int(op.choice * len(found.segments))]
            await there.write(
                transaction_name(segment_name(op.scope, op.stream, parent), key),
                f"<{op.choice:.4f}>".encode(),
            )


async def view(there: Rig) -> Any:
    """Return everything that can be queried, except transactions' ids, which are random."""
    keys: dict[str, str] = {}
    seen: list[Any] = []
    await there.streams.scopes()  # takes in what was made without asking
    async with there.catalog.turn() as state:
        scopes = sorted(name for name, scope in state.scopes.items() if scope.present)
        for scope, name, place in sorted(state.all_streams(), key=lambda found: found[:2]):
            keys |= {key: str(n) for n, key in enumerate(place.transactions)}
            now = place.stream
            seen.append(
                (
                    scope,
                    name,
                    now.status,
                    now.segments,
                    now.config,
                    now.cut,
                    now.next_number,
                    len(now.epochs),
                )
            )
            seen.append([(t.status, t.epoch, t.segments) for t in place.transactions.values()])
            seen.append((sorted(place.writers.items()), place.watermark))
        seen += [
            (name, sorted(found.groups.items()), sorted(found.maps.items()))
            for name, found in sorted(state.scopes.items())
        ]
    segments = {}
    for segment in there.store.segments():
        info = there.store.info(segment)
        assert info is not None
        parent, sign, key = segment.partition("#transaction.")
        if segment != SEGMENT:
            table = there.store.attribute(segment, TABLE)
            segments[parent + sign + keys.get(key, key)] = (
                there.content(segment),
                info.sealed,
                info.start,
                table,
            )
    return scopes, seen, segments


async def beside(operations: list[Operation]) -> Any:
    """Return the view of a store on which nothing ever failed."""
    reach, faults.on_reach = faults.on_reach, None
    try:
        async with rig() as there:
            for op in operations:
                with contextlib.suppress(StreamsError):
                    await perform(there, op)
            return await view(there)
    finally:
        faults.on_reach = reach


class Lives:
    """One directory, opened again after each death; *done* are the operations it contains."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = MemoryDisk()
        self.done: list[Operation] = []
        self.under_way: Operation | None = None
        self._corpse: MemoryDisk | None = None
        self._dies_in = 0

    async def live(self) -> None:
        self._corpse, self._dies_in = None, self.random.randrange(2, 150)
        faults.on_reach = self._reach
        try:
            async with rig(
                self.disk, clean=False, slack=3000, seed=self.random.getrandbits(64)
            ) as there:
                await self._compare(there)
                for _ in range(self.random.randrange(5, 40)):
                    if self._corpse is not None:
                        break
                    await self._step(there)
                self._die()
        finally:
            faults.on_reach = None
        assert self._corpse is not None
        self.disk = self._corpse

    def _reach(self, name: str) -> None:
        self._dies_in -= 1
        if self._dies_in == 0:
            self._die()

    def _die(self) -> None:
        if self._corpse is None:
            self._corpse = (
                self.disk.killed() if self.random.random() < 0.3 else self.disk.crash(self.random)
            )

    async def _step(self, there: Rig) -> None:
        op = chosen(self.random)
        self.under_way = op
        if self.random.random() < 0.1:
            self.disk.fail_write(errno.ENOSPC, after=self.random.choice((0, 64, 300, 1000)))
        try:
            with contextlib.suppress(StreamsError):
                await perform(there, op)
        except TransientError:
            if self._corpse is None:
                await self._compare(there)
            return
        if self._corpse is None:
            self.done.append(op)
            self.under_way = None

    async def _compare(self, there: Rig) -> None:
        while True:
            # a disk that is still full for one write more
            with contextlib.suppress(TransientError):
                found = await view(there)
                break
        if self._corpse is not None:
            return
        if self.under_way is not None and found == await beside([*self.done, self.under_way]):
            self.done.append(self.under_way)
        else:
            assert found == await beside(self.done)
        self.under_way = None


@pytest.mark.parametrize("seed", range(40))
def test_streams_are_what_was_answered_and_nothing_by_halves_after_any_crash(seed: int) -> None:
    async def main() -> None:
        lives = Lives(Random(seed))
        for _ in range(6):
            await lives.live()

    run(main())
