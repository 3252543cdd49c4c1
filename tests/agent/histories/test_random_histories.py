"""Random histories of files, agents and receivers: what is on disk at the end was delivered once,
and what vanished was reported (G1–G4, P1–P4, D2–D5).

The test remembers every byte of each generation of each file. Each source must be exactly one
generation, byte for byte at its positions, and no generation may have two sources. A generation
that is still on disk must have arrived whole. For the others, data and gaps must cover what was
reported.
"""

import contextlib
import os
import random
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from logdrive.model.numbers import is_closed, position_of
from tests.agent.world import World
from tests.support.reader_model import Piece, ReaderModel, Stored
from tests.support.virtual_time import run

_NAMES = ("/logs/a.log", "/logs/b.log", "/logs/c.log")


_ACTIONS = {
    "write": 12,
    "rotate": 2,
    "truncate": 1,
    "remove": 1,
    "kill": 2,
    "stop": 1,
    "cut": 2,
    "crash": 1,
    "fail": 2,
    "slow": 1,
    "refuse": 1,
}


class Lives:
    """The files of one host, with every byte that was ever written to each generation.

    First lines are unique.
    """

    def __init__(self, world: World, pick: random.Random) -> None:
        self.world, self.pick = world, pick
        self.number = 0
        self.current: dict[str, bytearray] = {}
        self.past: list[bytes] = []
        self.rotated: dict[str, bytearray] = {}

    def write(self) -> None:
        path = self.pick.choice(_NAMES)
        life = self.current.get(path)
        data = b""
        if life is None or not life:
            self.number += 1
            life = self.current[path] = bytearray()
            data = (
                b"life %d\n" % self.number if self.pick.random() < 0.9 else b"life %d" % self.number
            )
        for _ in range(self.pick.choice((1, 3, 30, 300, 3000))):
            data += b"%d %s" % (
                self.number,
                self.pick.choice((b"x", b"some words", b"\xff\xfe", b"\0" * 40))
                * self.pick.randrange(5),
            )
            data += self.pick.choice((b"\n", b"\n", b"\n", b"\r\n", b""))
        life += data
        self.world.write(data, path)

    def rotate(self) -> None:
        path = self.pick.choice(_NAMES)
        if self.current.get(path):
            self.number += 1
            target = f"{path}.{self.number}"
            self.world.disk.replace(path, target)
            self.rotated[target] = self.current.pop(path)

    def truncate(self) -> None:
        path = self.pick.choice(_NAMES)
        if path in self.current:
            self.world.truncate(path)
            self.past.append(bytes(self.current[path]))
            self.current[path] = bytearray()

    def remove(self) -> None:
        if self.rotated:
            path = self.pick.choice(sorted(self.rotated))
            self.world.disk.remove(path)
            self.past.append(bytes(self.rotated.pop(path)))

    def on_disk(self) -> list[bytes]:
        return [bytes(life) for life in (*self.current.values(), *self.rotated.values()) if life]


async def act(
    world: World,
    lives: Lives,
    reader: ReaderModel,
    pick: random.Random,
    name: str = "reader",
    without: tuple[str, ...] = (),
) -> None:
    """Do one random action, none of those in *without*, then let a little time pass."""
    kinds = [kind for kind in _ACTIONS if kind not in without]
    kind = pick.choices(kinds, [_ACTIONS[kind] for kind in kinds])[0]
    if kind in ("write", "rotate", "truncate", "remove"):
        getattr(lives, kind)()
    elif kind in ("kill", "stop"):
        await (world.kill() if kind == "kill" else world.stop())
        if pick.random() < 0.3 and "/state/checkpoint.json" in world.disk._files:
            world.forget()
        for _ in range(pick.randrange(4)):
            getattr(lives, pick.choice(("write", "write", "rotate", "truncate")))()
        world.start()
    elif kind == "cut":
        world.network.cut("agent")
    elif kind == "crash":
        await world.crash_reader(name)
        await world.clock.sleep(pick.random() * 5)
        await world.reader(name, reader)
    elif kind == "fail":
        left = [pick.randrange(1, 3)]
        chance = pick.random()

        def fails(_: object) -> bool:
            left[0] -= pick.random() < chance
            return left[0] >= 0 and pick.random() < chance

        reader.fail = fails
    elif kind == "refuse":
        times = [pick.randrange(1, 4)]

        def refuse(_: object) -> tuple[int, str] | None:
            times[0] -= 1
            return (pick.choice((3, 8, 9)), "not now") if times[0] >= 0 else None

        reader.refuse = refuse
    else:
        reader.ack_seconds = pick.choice((0.0, 0.001, 0.3, 2.0))
    await world.clock.sleep(pick.choice((0.0, 0.01, 0.1, 0.5, 3.0)))


def judge(stored: list[Stored], lives: Lives) -> None:
    """Compare all that arrived with what was written; a generation on disk has not ended."""
    judge_pieces([(source.path, source.data, source.gaps) for source in stored], lives)
    on_disk = lives.on_disk()
    assert not [
        source for source in stored if source.ended is not None and source.content in on_disk
    ]


def judge_pieces(
    delivered: Sequence[tuple[str, Sequence[Piece], Sequence[object]]], lives: Lives
) -> None:
    """Compare path, data and gaps of each source with what was written: one generation each, and
    whole if it is on disk.
    """
    on_disk, owned = lives.on_disk(), set[bytes]()
    whole: dict[bytes, bytes] = {}
    for path, pieces, gaps in delivered:
        if not pieces:
            continue
        matching = [
            life
            for life in (*on_disk, *lives.past)
            if all(life[start:end] == data for start, end, data in pieces)
        ]
        assert matching, f"{path}: {pieces[0][2][:60]!r}… was never written so"
        life = matching[0]
        assert life not in owned, f"{life[:60]!r}… arrived under two sources"
        owned.add(life)
        if not gaps:
            whole[life] = b"".join(data for _, _, data in pieces)
    for life in on_disk:
        assert life in owned, f"{life[:60]!r}… did not arrive"
        assert whole.get(life) == life, (
            f"of {life[:60]!r}… {len(whole.get(life, b''))} of {len(life)} bytes arrived"
        )


SEEDS = range(int(os.environ.get("LOGDRIVE_SEEDS", "25")))
"""More of them are worth their time after every change of a rule."""


@contextlib.asynccontextmanager
async def history(seed: int) -> AsyncIterator[tuple[World, ReaderModel, Lives, random.Random]]:
    """Start an agent and a receiver; after the test's actions let both finish, judge, and stop."""
    pick = random.Random(seed)
    world = _world(seed, pick)
    reader = await world.reader()
    lives = Lives(world, pick)
    world.start()
    yield world, reader, lives, pick
    await _calm(world, lives, reader)
    judge(list(reader.stored.values()), lives)
    await world.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_random_history__G1_G2_G3_G4_P1_P4_D3_D4(seed: int) -> None:
    async def main() -> None:
        async with history(seed) as (world, reader, lives, pick):
            for _ in range(40):
                await act(world, lives, reader, pick)

    run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_random_history_with_a_store_that_steps_back__D5_G6(seed: int) -> None:
    async def main() -> None:
        async with history(seed) as (world, reader, lives, pick):
            backup = reader.backup()
            for step in range(40):
                await act(world, lives, reader, pick)
                if pick.random() < 0.2:
                    backup = reader.backup()
                if step % 13 == 12:
                    await world.crash_reader()
                    reader.stored = {source: stored.copy() for source, stored in backup.items()}
                    await world.reader(model=reader)

    run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_a_store_that_lost_data_gets_it_again_or_a_gap__D5_G6_P4(seed: int) -> None:
    """A restored store gets gaps for files that are gone, and the end records of ended ones.

    There are no kills, which may lose the last second of the checkpoint.
    """

    async def main() -> None:
        async with history(seed) as (world, reader, lives, pick):
            backup, peaks = reader.backup(), dict[UUID, int]()
            for step in range(40):
                await act(world, lives, reader, pick, without=("kill", "stop"))
                if pick.random() < 0.2:
                    backup = reader.backup()
                if step % 13 == 12:
                    await world.clock.sleep(0.1)
                    await world.crash_reader()
                    peaks |= {
                        source: stored.number
                        for source, stored in reader.stored.items()
                        if stored.number > peaks.get(source, 0)
                    }
                    reader.stored = {source: stored.copy() for source, stored in backup.items()}
                    if pick.random() < 0.3:
                        await world.stop()
                        world.start()
                    await world.reader(model=reader)
        for source, number in peaks.items():
            assert source in reader.stored, "an ended source was not sent again"
            again = reader.stored[source]
            reached = position_of(again.number), is_closed(again.number)
            assert reached >= (position_of(number), is_closed(number)), (
                f"{again.path} was forgotten: {again}"
            )

    run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_random_history_between_two_stores__D5_h13(seed: int) -> None:
    async def main() -> None:
        pick = random.Random(seed)
        world = _world(seed, pick)
        world.settings["output"]["hosts"] = ["east:5044", "west:5044"]
        up, down = ("east", "west")
        reader = await world.reader(up)
        lives = Lives(world, pick)
        world.start()
        for _ in range(8):
            for _ in range(5):
                await act(world, lives, reader, pick, name=up)
            await world.crash_reader(up)
            up, down = down, up
            reader = await world.reader(up)
        for each in world.readers.values():
            await _calm(world, lives, each)
        judge_stores(world, lives)
        await world.stop()

    run(main())


def judge_stores(world: World, lives: Lives) -> None:
    """Assert that each generation on disk is whole over all stores together, and each source is one
    generation in all of them.
    """
    stores = [reader.stored for reader in world.readers.values()]
    for life in lives.on_disk():
        owners = []
        for source in dict.fromkeys(source for stored in stores for source in stored):
            pieces = [
                piece for stored in stores if source in stored for piece in stored[source].data
            ]
            if pieces and all(life[start:end] == data for start, end, data in pieces):
                owners.append(sorted(pieces))
        assert len(owners) == 1, f"{life[:60]!r}… arrived under {len(owners)} sources"
        reached = 0
        for start, end, _ in owners[0]:
            assert start <= reached, (
                f"of {life[:60]!r}… no store has the bytes {reached} to {start}"
            )
            reached = max(reached, end)
        assert reached == len(life)


def _world(seed: int, pick: random.Random) -> World:
    world = World(seed, quiet_seconds=2, end_after_seconds=3)
    world.settings["output"]["windows_in_flight"] = pick.choice((1, 3, 8))
    link = world.network.link("agent", "reader")
    link.delay, link.jitter = pick.choice(((0.0, 0.0), (0.005, 0.01), (0.2, 0.3)))
    link.capacity = pick.choice((2000, 256 * 1024))
    world.executor.delay = pick.choice((0.0, 0.02))
    world.settings["output"]["compression"] = pick.choice(("zstd", "zlib", "none"))
    return world


async def _calm(world: World, lives: Lives, reader: ReaderModel) -> None:
    """Let everything work from now on, and finish."""
    reader.fail, reader.refuse, reader.ack_seconds = (lambda _: False), (lambda _: None), 0.001
    await finish(world, lives)


async def finish(world: World, lives: Lives) -> None:
    """Give every file a last line, and wait until all is acknowledged."""
    # without it, a file without a first line would not be sent
    for path in sorted({*lives.current, *lives.rotated}):
        life = lives.current.get(path, lives.rotated.get(path))
        assert life is not None
        lives.number += 1
        last = b"last line %d\n" % lives.number
        world.write(last, path)
        life += last
    await world.clock.sleep(200)
    await world.settle(600)
