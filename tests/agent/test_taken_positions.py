"""Positions that were taken over from another shipper hold for the first start, and only once."""

from hashlib import sha256

import msgspec
import pytest

from agent.inputs.files.taken_positions import FILE_NAME, TakenPosition
from tests.agent.world import LOG, World, contents, lines
from tests.receiver.world import in_virtual_time

BEFORE = lines(0, 100)
AFTER = lines(100, 50)


def _taken(world: World, **keys: object) -> None:
    """Write the position behind `BEFORE` where the first start finds it."""
    about = {"path": "/other", "offset": len(BEFORE)} | keys
    position = msgspec.convert(about, TakenPosition)
    world.disk.write(_path(world), msgspec.json.encode([position]))


def _path(world: World) -> str:
    return f"{world.settings['agent']['state_dir']}/{FILE_NAME}"


def _keys(world: World, identity: str) -> dict[str, object]:
    stat = world.disk.stat(LOG)
    keys: dict[str, dict[str, object]] = {
        "inode": {"inode": stat.inode, "device": stat.device},
        "fingerprint": {
            "fingerprint": sha256(world.disk.content(LOG)[:1024]).hexdigest(),
        },
    }
    return keys[identity]


@pytest.mark.parametrize("identity", ["inode", "fingerprint"])
@in_virtual_time
async def test_a_file_is_read_on_from_the_position_and_the_rest_is_a_gap__P2(identity: str) -> None:
    world = World()
    world.write(BEFORE + AFTER)
    _taken(world, **_keys(world, identity))
    await world.reader()
    world.start()
    await world.settle()
    (stored,) = world.stored()
    assert stored.content == AFTER
    assert [gap[:3] for gap in stored.gaps] == [(0, len(BEFORE), "not_wanted")]
    await world.stop()


@in_virtual_time
async def test_the_positions_hold_once__P2() -> None:
    """Later the inode may be that of another file, which is read from its beginning."""
    world = World()
    world.write(BEFORE + AFTER)
    _taken(world, **_keys(world, "inode"))
    await world.reader()
    world.start()
    await world.settle()
    await world.stop()
    assert _path(world) not in world.disk.paths()


@in_virtual_time
async def test_a_position_beyond_the_end_is_of_another_file__P2() -> None:
    world = World()
    world.write(AFTER)
    _taken(world, **_keys(world, "inode"))
    await world.reader()
    world.start()
    await world.settle()
    assert contents(world.stored()) == [AFTER]
    await world.stop()
