"""Positions that were taken over from another shipper hold for the first start, and only once."""

import errno
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from agent.check import check_agent
from agent.config.config import AgentConfig
from agent.inputs.files.taken_positions import FILE_NAME, TakenPosition, TakenPositions
from logdrive.errors import UnavailableError
from tests.agent.world import LOG, World, contents, lines
from tests.receiver.world import in_virtual_time
from tests.support.memory.disk import MemoryFile

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


@in_virtual_time
async def test_a_file_with_a_position_is_no_copy_of_one_that_begins_like_it__P2() -> None:
    """A log that was rotated just now, and whose successor has only their common header yet."""
    world = World()
    rotated = f"{LOG}.1"
    header = lines(0, 10)
    world.write(header)
    world.write(header + BEFORE, rotated)
    stat = world.disk.stat(rotated)
    _taken(world, offset=len(header + BEFORE), inode=stat.inode, device=stat.device)
    world.write(AFTER, rotated)
    await world.reader()
    world.start()
    await world.settle()
    assert contents(world.stored()) == [header]
    assert contents(world.stored(rotated)) == [AFTER]
    await world.stop()


@in_virtual_time
async def test_a_check_says_from_where_the_first_start_goes_on__P2() -> None:
    world = World()
    world.write(BEFORE + AFTER)
    _taken(world, **_keys(world, "inode"))
    await world.reader()
    config = msgspec.convert(world.settings, AgentConfig)
    checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
    assert [file.plan for file in checked.files] == [
        "from 1200, where another shipper stopped: 600 bytes are new"
    ]
    findings = {finding.name: finding for finding in checked.findings}
    assert findings["positions"].ok
    assert _path(world) in findings["positions"].detail

    world.disk.write(_path(world), b"[")
    checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
    findings = {finding.name: finding for finding in checked.findings}
    assert not findings["positions"].ok
    assert "write it again by `logdrive agent import`" in findings["positions"].detail


@in_virtual_time
async def test_a_file_with_a_position_that_can_not_be_read_keeps_the_first_start_from_sending__P2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would be sent from its beginning as soon as it can be read."""
    world = World()
    world.write(BEFORE + AFTER)
    _taken(world, **_keys(world, "inode"))
    await world.reader()
    opened = world.disk.open

    def refuse(path: str, **keys: Any) -> MemoryFile:
        if path == LOG:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, **keys)

    monkeypatch.setattr(world.disk, "open", refuse)
    world.start()
    with pytest.raises(UnavailableError, match=rf"{LOG}: another shipper had a position in it"):
        await world.stop()
    monkeypatch.undo()
    world.start()
    await world.settle()
    assert contents(world.stored()) == [AFTER]
    await world.stop()


@in_virtual_time
async def test_positions_that_can_not_be_read_stop_the_start_and_say_what_to_do__P2(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They may be root's, who imported them; without them all would be sent again."""
    world = World()
    world.write(BEFORE + AFTER)
    _taken(world, **_keys(world, "inode"))
    opened = world.disk.open

    def refuse(path: str, **keys: Any) -> MemoryFile:
        if path == _path(world):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return opened(path, **keys)

    monkeypatch.setattr(world.disk, "open", refuse)
    with pytest.raises(UnavailableError, match=r"json: it can't be read .*give it, and its dir"):
        TakenPositions(world.disk, world.settings["agent"]["state_dir"]).load()
