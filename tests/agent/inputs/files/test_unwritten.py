"""The written part of a file that ends with NULs is found, in however many looks (rule P5)."""

from collections.abc import Iterator
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.files import InputTable
from agent.inputs.files import unwritten
from agent.inputs.files.file import Generation
from agent.inputs.files.unwritten import UnwrittenTail
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from tests.support.memory.disk import MemoryDisk, MemoryFile

PATH = "/logs/a.log"

contents = st.lists(
    st.tuples(st.sampled_from([b"\0", b"x", b"\n"]), st.integers(0, 60)), max_size=8
).map(lambda runs: b"".join(byte * count for byte, count in runs))


@pytest.fixture(autouse=True, scope="module")
def small_steps() -> Iterator[None]:
    """Read so little at a time that small files take many looks."""
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (
            ("_FIRST_BYTES", 4),
            ("_BLOCK", 8),
            ("_FORWARD_BYTES", 24),
            ("_BACKWARD_BYTES", 16),
        ):
            patch.setattr(unwritten, name, size)
        yield


def opened(content: bytes) -> MemoryFile:
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, content)
    return disk.open(PATH)


def look_until_found(
    tail: UnwrittenTail, file: MemoryFile, known: int, size: int, time: int
) -> int:
    """Return what looks find, until some in a row find nothing more."""
    quiet = 0
    while quiet < 40:
        end = tail.find_end(file, known, size, time)
        assert end >= known
        quiet = quiet + 1 if end == known else 0
        known = end
    return known


@given(contents, contents)
def test_all_that_is_written_is_found_in_looks_of_bounded_size__P5(
    content: bytes, later: bytes
) -> None:
    written = len(content.rstrip(b"\0"))
    tail = UnwrittenTail()
    assert look_until_found(tail, opened(content), 0, len(content), 1) == written
    # then something is written in place, and the file may grow or be cut
    changed = content[:written] + later
    found = look_until_found(tail, opened(changed), written, len(changed), 2)
    assert found == max(written, len(changed.rstrip(b"\0")))


@given(contents, st.data())
def test_no_end_is_told_that_only_nuls_precede_beyond_what_is_known__P5(
    content: bytes, data: st.DataObject
) -> None:
    """At any look: what is told as written is followed by nothing, or ends with what is no NUL."""
    known = data.draw(st.integers(0, len(content)))
    end = UnwrittenTail().find_end(opened(content), known, len(content), 1)
    assert end == known or content[end - 1 : end] != b"\0"


def test_a_growing_file_is_found_without_reading_its_tail_again__P5() -> None:
    """A writer that goes on where it was costs a read or two, however long the tail is."""
    reads: list[int] = []
    length = 100_000
    tail = UnwrittenTail()
    look_until_found(tail, opened(bytes(length)), 0, length, 1)
    file = opened(b"x" * 20 + bytes(length - 20))
    whole = file.pread

    def counted(size: int, offset: int) -> bytes:
        reads.append(size)
        return whole(size, offset)

    file.pread = counted  # type: ignore[method-assign]
    assert tail.find_end(file, 0, length, 2) == 20
    assert sum(reads) < 100


def generation_of(disk: MemoryDisk, settings: dict[str, str], first_line: bytes) -> Generation:
    """Return the generation of the file, open and looked at."""
    stat = disk.stat(PATH)
    generation = Generation(
        FileLocation(PATH, PATH, "/", stat.device, stat.inode, stat.birth_ns),
        msgspec.convert({"paths": ["/logs/*"], **settings}, InputTable),
    )
    generation.open_handle(disk)
    generation.set_first_line(FirstLine(first_line, len(first_line), crc32(first_line)))
    generation.on_stat(stat, 0.0)
    return generation


def test_nuls_at_the_end_are_not_read_and_cutting_them_off_is_no_truncation__P5() -> None:
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, b"first\nsecond\nthird")
    disk.set_aside(PATH, 100)
    generation = generation_of(disk, {}, b"first\n")
    assert generation.unread == len(b"first\nsecond\nthird")
    assert text_of(generation) == b"first\nsecond\n"
    disk.write(PATH, b" line\n")
    generation.on_stat(disk.stat(PATH), 1.0)
    assert text_of(generation) == b"third line\n"
    disk.trim(PATH)
    generation.on_stat(disk.stat(PATH), 2.0)
    assert generation.unread == 0
    disk.write(PATH, b"more\n")
    generation.on_stat(disk.stat(PATH), 3.0)
    assert text_of(generation) == b"more\n"


def test_a_read_that_goes_beyond_the_end_seen_last_leaves_nuls_there__P5() -> None:
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, b"first\n")
    generation = generation_of(disk, {}, b"first\n")
    disk.write(PATH, b"second\n")
    disk.set_aside(PATH, 100)
    generation.release_last_line()
    assert text_of(generation) == b"first\nsecond\n"


def text_of(generation: Generation) -> bytes:
    """Return the lines that are read now."""
    chunk = generation.read_lines(0.0)
    assert chunk is not None
    return chunk.data[chunk.begin : chunk.end]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"line_end": "\0"}, b"one\0two\0"),
        ({"encoding": "utf-16-le"}, "one\ntwo\n".encode("utf-16-le")),
        ({"encoding": "utf-32"}, "one\ntwo\n".encode("utf-32")),
    ],
    ids=["line end", "utf-16", "utf-32"],
)
def test_nuls_that_belong_to_lines_are_read_with_them__P5(
    settings: dict[str, str], text: bytes
) -> None:
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, text)
    generation = generation_of(disk, settings, text[:4])
    assert generation.unread == len(text)
    assert text_of(generation) == text
