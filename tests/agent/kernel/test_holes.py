"""Files with NULs: preallocated ones that are written in place, sparse ones, and what a crash
leaves (rule P5).

No NUL is a line before something follows it, nothing that is written later is left out, and every
byte arrives in the end.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logdrive.model.units import MIB
from tests.agent.kernel.real_world import RealWorld
from tests.agent.world import lines
from tests.support.virtual_time import run

SIZE = 3 * MIB
"""Bytes that are set aside before anything is written."""


def fallocate(path: Path) -> None:
    """Set blocks aside, and count them in the file's size."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.posix_fallocate(handle, 0, SIZE)
    finally:
        os.close(handle)


def hole(path: Path) -> None:
    """Set the file's size, and nothing else."""
    path.touch()
    os.truncate(path, SIZE)


def zeros(path: Path) -> None:
    """Write what is to be overwritten."""
    path.write_bytes(bytes(SIZE))


PREALLOCATE = pytest.mark.parametrize("preallocate", [fallocate, hole, zeros])


@PREALLOCATE
def test_a_preallocated_file_is_sent_as_it_is_written__P5(
    tmp_path: Path, preallocate: Callable[[Path], None]
) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path, quiet_seconds=5)
        preallocate(world.log)
        await world.begin()
        await world.pass_time(20)
        assert world.all_content() == [], "nothing is written yet"
        written = b""
        for number in range(0, 60, 10):
            world.put(lines(number, 10), at=len(written))
            written += lines(number, 10)
            await world.pass_time(2)
            assert world.all_content() == [written]
        assert world.agent is not None
        assert world.agent.status().unread_bytes == 0
        # a restart with and without the checkpoint
        await world.stop()
        world.put(lines(60, 10), at=len(written))
        world.start()
        await world.pass_time()
        await world.stop()
        (world.root / "state/checkpoint.json").unlink()
        world.put(lines(70, 10), at=len(lines(0, 70)))
        world.start()
        await world.pass_time(20)
        assert world.all_content() == [lines(0, 80)]
        await world.stop()

    run(main())


@PREALLOCATE
def test_a_preallocated_file_that_is_cut_to_what_was_written_is_not_truncated__P5(
    tmp_path: Path, preallocate: Callable[[Path], None]
) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path)
        preallocate(world.log)
        world.put(lines(0, 10), at=0)
        await world.begin()
        os.truncate(world.log, len(lines(0, 10)))
        await world.pass_time()
        world.put(lines(10, 10))
        await world.pass_time()
        (stored,) = world.all_stored()
        assert (stored.content, stored.ended, stored.gaps) == (lines(0, 20), None, [])
        # filled up, and preallocated further
        os.truncate(world.log, SIZE)
        world.put(lines(20, 10), at=len(lines(0, 20)))
        await world.pass_time()
        assert world.all_content() == [lines(0, 30)]
        os.truncate(world.log, 0)
        await world.pass_time()
        world.put(lines(0, 3, prefix="next"))
        await world.pass_time()
        assert world.all_content() == [lines(0, 30), lines(0, 3, prefix="next")]
        await world.stop()

    run(main())


def test_part_of_a_line_before_unwritten_bytes_waits_and_its_rest_follows__P3_P5(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path, quiet_seconds=10)
        fallocate(world.log)
        world.put(b"first\nsecond, no end", at=0)
        await world.begin()
        await world.pass_time(5)
        assert world.all_content() == [b"first\n"]
        await world.pass_time(20)
        assert world.all_content() == [b"first\nsecond, no end"]
        world.put(b" yet\nthird\n", at=len(b"first\nsecond, no end"))
        await world.pass_time(5)
        assert world.all_content() == [b"first\nsecond, no end yet\nthird\n"]
        await world.stop()

    run(main())


def test_bytes_written_beyond_a_hole_are_sent_with_the_hole__P5(tmp_path: Path) -> None:
    """A writer that does not append goes on where it was, after its file was truncated."""

    async def main() -> None:
        world = RealWorld(tmp_path)
        world.put(lines(0, 10))
        await world.begin()
        os.truncate(world.log, 0)
        await world.pass_time()
        world.put(lines(10, 10), at=SIZE)
        await world.pass_time()
        world.put(lines(20, 10))
        # in place, beyond what is still unwritten
        other = world.logs / "other.log"
        zeros(other)
        await world.pass_time()
        world.put(lines(0, 10, prefix="other"), other, at=2 * MIB)
        await world.pass_time()
        assert world.all_content() == [
            bytes(SIZE) + lines(10, 20),
            bytes(2 * MIB) + lines(0, 10, prefix="other"),
            lines(0, 10),
        ]
        await world.stop()

    run(main())


def test_nuls_that_a_crash_left_are_sent_once_something_follows_or_the_file_is_gone__P5_R2(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path, quiet_seconds=5, end_after_seconds=5)
        world.put(lines(0, 10) + bytes(700))
        gone = world.logs / "gone.log"
        world.put(lines(0, 10, prefix="gone") + bytes(100_000), gone)
        await world.begin()
        await world.pass_time()
        assert world.all_content() == [lines(0, 10, prefix="gone"), lines(0, 10)]
        world.put(lines(10, 10))
        gone.unlink()
        await world.pass_time(60)
        whole = lines(0, 10, prefix="gone") + bytes(100_000)
        assert world.all_content() == [whole, lines(0, 10) + bytes(700) + lines(10, 10)]
        ended = {stored.content: stored.ended for stored in world.all_stored()}
        assert ended[whole] == (len(whole), "removed")
        await world.stop()

    run(main())


def test_a_line_that_ends_with_a_nul_each_time_arrives_whole__P5_R2(tmp_path: Path) -> None:
    """As of a writer in C that sends the NUL behind its string, too."""

    async def main() -> None:
        world = RealWorld(tmp_path)
        written = b""
        world.put(b"")
        await world.begin()
        for number in range(20):
            line = b"line %d\n\0" % number
            world.put(line)
            written += line
            await world.pass_time(1)
        assert world.all_content() == [written[:-1]]
        await world.stop()

    run(main())


def test_a_file_without_a_first_line_is_sent_with_its_nuls_when_it_is_gone__P3_P5(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        world = RealWorld(tmp_path, end_after_seconds=5)
        contents = {
            "short": b"no end" + bytes(40),
            "long": b"no end" + bytes(100_000),
            "unwritten": bytes(5000),
        }
        for name, content in contents.items():
            world.put(content, world.logs / f"{name}.log")
        await world.begin()
        await world.pass_time(10)
        assert world.all_content() == []
        for name in contents:
            (world.logs / f"{name}.log").unlink()
        await world.pass_time(60)
        assert world.all_content() == [contents["short"], contents["long"]]
        await world.stop()

    run(main())
