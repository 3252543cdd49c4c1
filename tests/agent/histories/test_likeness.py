"""Histories of files that were replaced or rewritten while the agent was away, and whose
generations begin with the same bytes (G2, P4).
"""

import orjson
import pytest

from logdrive.records.runs import UNSURE
from tests.agent.world import LOG, World, contents, lines
from tests.support.reader_model import Stored
from tests.support.virtual_time import run

BANNER = b"# constant header of every life\n"


def _rewrite(world: World, content: bytes, *, how: str) -> None:
    """Replace the log's content by *content*; its inode stays the same."""
    if how == "truncated":
        world.truncate()
    else:
        inode = world.disk.stat(LOG).inode
        world.disk.remove(LOG)
        later, world.disk.next_inode = world.disk.next_inode, inode
        world.disk.write(LOG, b"")
        world.disk.next_inode = later
    world.write(content)


def _strip(world: World, *keys: str) -> None:
    """Remove from the checkpoint what older agents did not write."""
    path = "/state/checkpoint.json"
    kept = orjson.loads(world.disk.content(path))
    for entry in kept["entries"]:
        for key in keys:
            entry.pop(key, None)
    world.disk.remove(path)
    world.write(orjson.dumps(kept), path)


async def _seen_and_not_sent(world: World, content: bytes) -> None:
    """Let the agent see *content* while no receiver takes it, write the checkpoint, and end."""
    await world.reader()
    await world.crash_reader()
    world.write(content)
    world.start()
    await world.clock.sleep(5)
    await world.kill()


@pytest.mark.parametrize("shipped", [0, 20])
def test_a_file_with_another_birth_time_is_another_file_even_with_the_same_bytes__G2(
    shipped: int,
) -> None:
    """The bytes shipped of the old file are those that the new one begins with: lines of both are
    delivered.
    """

    async def main() -> None:
        world = World()
        await world.ships(BANNER + lines(0, shipped))
        await world.stop()
        world.write(lines(shipped, 50))
        await world.clock.sleep(1)
        _rewrite(world, BANNER + lines(0, shipped) + lines(0, 80, prefix="new"), how="replaced")
        world.start()
        await world.settle()
        old, new = world.stored()
        assert (old.content, old.ended) == (
            BANNER + lines(0, shipped),
            (len(BANNER) + shipped * 12, "removed"),
        )
        assert (new.content, new.ended) == (world.disk.content(LOG), None)
        await world.stop()

    run(main())


@pytest.mark.parametrize("how", ["replaced", "truncated"])
def test_unsent_lines_are_a_gap_if_others_took_their_place__G4_P4(
    how: str,
) -> None:
    """The bytes before the end seen last distinguish the generations if the birth time does not."""

    async def main() -> None:
        world = World()
        await _seen_and_not_sent(world, BANNER + lines(0, 50))
        await world.clock.sleep(1)
        _rewrite(world, BANNER + lines(0, 80, prefix="new"), how=how)
        await world.reader()
        world.start()
        await world.settle()
        assert _unseen(world.stored()) == [
            (0, len(BANNER) + 600, "removed" if how == "replaced" else "truncated", False)
        ]
        assert sorted(contents(world.stored())) == [b"", world.disk.content(LOG)]
        await world.stop()

    run(main())


def _unseen(stored: list[Stored]) -> list[tuple[int, int, str, bool]]:
    return [gap for each in stored for gap in each.gaps]


def test_unacknowledged_lines_identify_a_file_too__G4() -> None:
    """Runs in flight were read, so their bytes are compared: no `unsure` generation is added."""

    async def main() -> None:
        world = World()
        reader = await world.reader()
        reader.silent = True
        world.write(BANNER + lines(0, 50))
        world.start()
        await world.clock.sleep(5)
        await world.kill()
        reader.silent = False
        world.write(lines(50, 10))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_a_backlog_that_is_still_there_is_shipped_once__G4() -> None:
    async def main() -> None:
        world = World()
        await _seen_and_not_sent(world, BANNER + lines(0, 50))
        world.write(lines(50, 10))
        await world.reader()
        world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


@pytest.mark.parametrize("same_length", [False, True])
def test_a_changed_file_compared_by_its_first_line_only_adds_an_unsure_generation__P4(
    same_length: bool,
) -> None:
    """The file was rewritten with the same first line while the agent was away, which no byte
    shows. The generation that may have been lost is reported with an unknown end.
    """

    async def main() -> None:
        world = World()
        await world.ships(BANNER)
        await world.stop()
        world.write(lines(0, 50))
        await world.clock.sleep(1)
        _rewrite(
            world, BANNER + (b"" if same_length else lines(0, 80, prefix="new")), how="truncated"
        )
        for _ in range(2):
            world.start()
            await world.settle()
            whole, unsure = world.stored()
            assert (whole.content, whole.ended) == (world.disk.content(LOG), None)
            assert (unsure.content, unsure.gaps, unsure.ended) == (b"", [], (0, UNSURE))
            await world.stop()

    run(main())


@pytest.mark.parametrize("old_checkpoint", [False, True])
def test_an_unchanged_file_of_one_line_adds_no_unsure_generation__P4(old_checkpoint: bool) -> None:
    async def main() -> None:
        world = World()
        await world.ships(BANNER)
        await world.stop()
        if old_checkpoint:
            _strip(world, "modified_ns", "last")
        await world.clock.sleep(60)
        world.start()
        await world.settle()
        (stored,) = world.stored()
        assert (stored.content, stored.ended) == (BANNER, None)
        world.write(lines(0, 5))
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_checkpoints_of_older_agents_are_read_on_from__D5() -> None:
    async def main() -> None:
        world = World()
        await world.ships(BANNER + lines(0, 10))
        await world.stop()
        _strip(world, "modified_ns", "last")
        world.write(lines(10, 10))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_a_file_system_on_another_device_has_the_same_files_with_other_births__G2() -> None:
    """From then on, the new birth time identifies the file."""

    async def main() -> None:
        world = World()
        await world.ships(BANNER + lines(0, 10))
        await world.stop()
        world.write(lines(10, 10))
        node = world.disk._files[LOG]
        node.born_ns, world.disk.device = node.born_ns + 5_000_000_000, world.disk.device + 70
        world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()
        first = world.disk.content(LOG)
        _rewrite(world, first + lines(0, 5, prefix="new"), how="replaced")
        world.disk._files[LOG].born_ns += 9_000_000_000
        world.start()
        await world.settle()
        assert contents(world.stored()) == [first, world.disk.content(LOG)]
        await world.stop()

    run(main())


def test_an_open_file_that_gets_another_birth_time_is_the_same__G2() -> None:
    """Overlayfs gives one to a file of a lower layer that is first written to."""

    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        node = world.disk._files[LOG]
        # a second name, so that each scan looks at it
        world.disk._files[f"{LOG}.other"], node.links = node, 2
        node.born_ns += 5_000_000_000
        world.write(lines(10, 10))
        await world.settle(30)
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()
        world.start()
        await world.settle()
        assert contents(world.stored()) == [lines(0, 20)]
        await world.stop()

    run(main())


def test_without_birth_times_the_bytes_decide_whether_a_file_is_the_same__G2() -> None:
    async def main() -> None:
        world = World()
        world.write(BANNER + lines(0, 10))
        world.disk._files[LOG].born_ns = 0
        await world.ships(lines(10, 10))
        await world.stop()
        world.write(lines(20, 10))
        world.start()
        await world.settle()
        assert contents(world.stored()) == [world.disk.content(LOG)]
        await world.stop()

    run(main())


@pytest.mark.parametrize("other", ["/logs/b.log", "/other/b.log"])
def test_a_file_with_the_inode_of_a_removed_one_has_its_own_name_and_input__G2_R4(
    other: str,
) -> None:
    """Without birth times it is found by the inode, under a name of its own."""

    async def main() -> None:
        world = World()
        world.disk.make_directory("/other")
        world.disk.tells_births = False
        name = {"fields": {"input": "other"}}
        world.settings["input"].insert(0, {"paths": ["/logs/b*", "/other/*"], **name})
        await world.ships(lines(0, 10))
        await world.stop()
        world.disk.next_inode = world.disk.stat(LOG).inode
        world.disk.remove(LOG)
        world.write(lines(0, 10, prefix="other"), other)
        world.disk.next_inode = 1000
        world.start()
        await world.settle()
        world.write(lines(10, 10, prefix="other"), other)
        await world.settle()
        assert contents(world.stored()) == [lines(0, 10)]
        assert contents(world.stored(other)) == [world.disk.content(other)]
        assert [each.attributes["fields"] for each in world.stored(other)] == [name["fields"]]
        await world.stop()

    run(main())
