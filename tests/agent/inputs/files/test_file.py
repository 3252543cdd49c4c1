"""A generation is read in whole lines, and no byte of another one is returned (G4, P1, P3, D4)."""

from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config.files import InputTable
from agent.events.event import Event
from agent.inputs.files.file import Generation
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from agent.sources.readable import SourceTruncatedError
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from tests.support.memory.disk import MemoryDisk, MemoryFile

PATH = "/logs/a.log"
SETTINGS = InputTable(paths=["/logs/*"])


def found(content: bytes, settings: InputTable = SETTINGS) -> tuple[MemoryDisk, Generation]:
    """Return a generation that is open, and was not looked at yet."""
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, content)
    stat = disk.stat(PATH)
    generation = Generation(
        FileLocation(PATH, PATH, "/", stat.device, stat.inode, stat.birth_ns), settings
    )
    generation.open_handle(disk)
    return disk, generation


def opened(content: bytes, settings: InputTable = SETTINGS) -> tuple[MemoryDisk, Generation]:
    disk, generation = found(content, settings)
    first_line = FirstLine.find_in(content, ended=True)
    assert first_line is not None
    generation.set_first_line(first_line)
    generation.on_stat(disk.stat(PATH), 0.0)
    return disk, generation


def text_of(chunk: TextChunk) -> bytes:
    return chunk.data[chunk.begin : chunk.end]


def look(disk: MemoryDisk, generation: Generation, now: float = 1.0) -> None:
    generation.on_stat(disk.stat(PATH), now)


def look_and_read(disk: MemoryDisk, generation: Generation) -> None:
    look(disk, generation)
    generation.read_lines(1.0)


def rewrite(disk: MemoryDisk, content: bytes) -> None:
    file = disk.open(PATH, write=True)
    file.truncate(0)
    file.append([content])
    file.close()


def append(disk: MemoryDisk, content: bytes) -> None:
    file = disk.open(PATH, write=True)
    file.append([content])
    file.close()


def test_only_whole_lines_are_given_out_and_the_rest_when_it_is_whole__P3() -> None:
    disk, generation = opened(b"one\ntwo\nthr")
    chunk = generation.read_lines(0.0)
    assert chunk is not None
    assert (chunk.start, text_of(chunk), chunk.open_end) == (0, b"one\ntwo\n", False)
    assert generation.read_lines(0.0) is None
    assert not generation.has_lines
    disk.write(PATH, b"ee\n")
    look(disk, generation)
    assert generation.has_lines
    chunk = generation.read_lines(0.0)
    assert chunk is not None
    assert (chunk.start, text_of(chunk)) == (8, b"three\n")


def test_a_final_read_gives_out_the_last_line_until_the_file_grows__P3() -> None:
    disk, generation = opened(b"one\ntw")
    generation.release_last_line()
    chunk = generation.read_lines(0.0)
    assert chunk is not None
    assert text_of(chunk) == b"one\ntw"
    disk.write(PATH, b"o")
    look(disk, generation)
    assert not generation.final
    assert generation.read_lines(0.0) is None
    disk.write(PATH, b"\n")
    look(disk, generation)
    chunk = generation.read_lines(0.0)
    assert chunk is not None
    assert (chunk.start, text_of(chunk)) == (6, b"o\n")


@pytest.mark.parametrize(
    "after",
    [
        b"one\ntwo\n",
        b"one\nTWO\nthree\nfour\n",
        b"ONE\ntwo\nthree\nfour\n",
        b"",
        b"one\nother content here\n",
    ],
    ids=["shorter", "same head", "same tail length", "empty", "same first line"],
)
def test_another_content_is_a_truncation__G4(after: bytes) -> None:
    disk, generation = opened(b"one\ntwo\nthree\n")
    assert generation.read_lines(0.0) is not None
    rewrite(disk, after)
    with pytest.raises(SourceTruncatedError):
        look_and_read(disk, generation)
    assert generation.seen == 14, "bytes of the next generation do not count for this one"


def test_a_read_notices_a_replacement_that_a_look_has_missed__G4() -> None:
    disk, generation = opened(b"one\ntwo\n" * 100)
    assert generation.read_lines(0.0, limit=100) is not None
    rewrite(disk, b"one\ntwo!\n" * 200)
    with pytest.raises(SourceTruncatedError):
        generation.read_lines(0.0)


def test_seen_bytes_that_vanish_are_a_truncation_even_unread__G1() -> None:
    disk, generation = opened(b"one\ntwo\nthree\n")
    file = disk.open(PATH, write=True)
    file.truncate(8)
    with pytest.raises(SourceTruncatedError):
        generation.read_lines(0.0)
    with pytest.raises(SourceTruncatedError):
        look(disk, generation)


def test_the_next_life_is_told_before_it_is_read_by_what_was_seen__G4() -> None:
    """It has the same first line, and is longer: the file was looked at, and is read a moment
    later.
    """
    disk, generation = opened(b"one\ntwo\nthree\n")
    rewrite(disk, b"one\nother, and longer than before\n")
    with pytest.raises(SourceTruncatedError):
        generation.read_lines(0.0)


def test_what_was_read_is_known_though_it_is_read_again__G4() -> None:
    """A connection that is lost before an acknowledgement leaves more to compare than a line."""
    content = b"one\ntwo\nthree\n"
    disk, generation = opened(content)
    chunk = generation.read_lines(0.0)
    assert chunk is not None
    read = generation.last_number
    assert read == number_of(len(content), content)
    generation.give_back(chunk, 8)
    assert generation.last_number == read
    generation.resume_from(0)
    assert generation.last_number == read
    rewrite(disk, b"one\nother, and longer than before\n")
    with pytest.raises(SourceTruncatedError):
        look(disk, generation)


def test_going_to_a_number_compares_its_check_before_reading__P1_G4() -> None:
    content = b"one\ntwo\nthree\n"
    _, generation = opened(content)
    generation.resume_from(number_of(8, content[:8]))
    chunk = generation.read_lines(0.0)
    assert chunk is not None
    assert (chunk.start, text_of(chunk), chunk.tail_at(8)) == (8, b"three\n", b"one\ntwo\n")
    generation.resume_from(number_of(8, b"other"))
    with pytest.raises(SourceTruncatedError):
        generation.read_lines(0.0)
    generation.resume_from(number_of(8, None))
    assert generation.read_lines(0.0) is not None, "a check of 0 says nothing"


def test_a_stored_number_fits_or_not__D4() -> None:
    content = b"x" * 300 + b"\n" + b"y" * 300 + b"\n"
    _, generation = opened(content)
    assert generation.matches_number(0)
    assert generation.matches_number(number_of(301, content[:301]))
    assert generation.matches_number(number_of(602, content))
    assert generation.matches_number(number_of(301, None))
    assert not generation.matches_number(number_of(301, content[:300]))
    assert not generation.matches_number(number_of(603, None))


def test_nuls_set_aside_between_the_size_and_the_head_are_no_part_of_it__P5() -> None:
    disk, generation = found(b"\0")
    stat = disk.stat(PATH)
    rewrite(disk, b"first" + b"\0" * 40)  # in place
    generation.on_stat(stat, 0.0)
    assert generation.read_head() == b"first"
    look(disk, generation)
    assert generation.read_head() == b"first"
    append(disk, b"line\n")
    look(disk, generation)
    assert generation.read_head() == b"first" + b"\0" * 40 + b"line\n"


@pytest.mark.parametrize(
    "after",
    [
        b"",
        b"head\n",
        b"other\none\ntwo\n" * 2,
        b"head\nanother\n" * 2,  # the end seen last differs
    ],
)
def test_a_number_is_never_contradicted_by_the_next_life__D4(after: bytes) -> None:
    content = b"head\none\ntwo\n"
    disk, generation = opened(content)
    number = number_of(9, content[:9])
    rewrite(disk, after)
    with pytest.raises(SourceTruncatedError):
        generation.matches_number(number)


def test_a_name_that_became_another_files_is_not_opened__G1() -> None:
    disk, generation = opened(b"one\n")
    generation.close_handle()
    disk.replace(PATH, f"{PATH}.1")
    disk.write(PATH, b"two\n")
    with pytest.raises(FileNotFoundError):
        generation.open_handle(disk)


def test_a_successor_reads_the_same_file_from_its_beginning__G3() -> None:
    disk, generation = opened(b"one\n")
    assert generation.read_lines(0.0) is not None
    rewrite(disk, b"next\n")
    successor = generation.make_successor()
    assert generation.retired
    assert generation.file is None
    successor.first_line = FirstLine.find_in(successor.read_head())
    successor.on_stat(disk.stat(PATH), 1.0)
    chunk = successor.read_lines(1.0)
    assert chunk is not None
    assert (chunk.start, text_of(chunk)) == (0, b"next\n")


def test_a_line_is_read_to_its_end_if_that_is_near_enough__P3() -> None:
    disk, generation = opened(b"0123456789")
    assert generation.read_lines(0.0, limit=4, longest=16) is None, "its end may come"
    assert not generation.has_lines
    disk.write(PATH, b"abc\nnext\n")
    look(disk, generation)
    chunk = generation.read_lines(0.0, limit=4, longest=16)
    assert chunk is not None
    assert (text_of(chunk), chunk.open_end) == (b"0123456789abc\n", False)
    chunk = generation.read_lines(0.0, limit=8, longest=16)
    assert chunk is not None
    assert text_of(chunk) == b"next\n"


def test_a_long_line_that_grows_is_not_read_again_from_its_beginning__P3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, generation = opened(b"0123456789" * 100)
    assert generation.read_lines(0.0, limit=400, longest=2000) is None
    assert generation.file is not None
    sizes, pread = list[int](), type(generation.file).pread

    def counted(file: MemoryFile, size: int, offset: int) -> bytes:
        data = pread(file, size, offset)
        sizes.append(len(data))
        return data

    for _ in range(10):
        disk.write(PATH, b"x" * 10)
        look(disk, generation)
        with monkeypatch.context() as patch:
            patch.setattr(MemoryFile, "pread", counted)
            assert generation.read_lines(0.0, limit=400, longest=2000) is None
        assert not generation.has_lines
    assert generation.first_line is not None
    assert sum(sizes) == 10 * (10 + generation.first_line.span + TAIL_BYTES)

    disk.write(PATH, b"end\nnext\n")
    look(disk, generation)
    chunk = generation.read_lines(0.0, limit=400, longest=2000)
    assert chunk is not None
    assert text_of(chunk) == b"0123456789" * 100 + b"x" * 100 + b"end\nnext\n"


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"x", b"yy", b"\n", b"z" * 9, b"q\n", b"\xe4\xb8\xad" * 3])))
def test_however_a_file_grows_its_lines_are_the_same__P3_R2(pieces: list[bytes]) -> None:
    disk, generation = opened(b"1\n")
    text, read = b"1\n", b""

    def read_all() -> None:
        nonlocal read
        while generation.has_lines:
            chunk = generation.read_lines(0.0, limit=4, longest=16)
            read += b"" if chunk is None else text_of(chunk)

    read_all()
    for piece in pieces:
        disk.write(PATH, piece)
        text += piece
        look(disk, generation)
        read_all()
        assert text.startswith(read)
        assert len(text) - len(read) < 16
        assert b"\n" not in text[len(read) :]
    generation.release_last_line()
    read_all()
    assert read == text


def test_a_line_longer_than_the_longest_comes_in_parts__P3() -> None:
    _, generation = opened(b"0123456789")
    chunk = generation.read_lines(0.0, limit=4, longest=8)
    assert chunk is not None
    assert (text_of(chunk), chunk.open_end) == (b"01234567", True)
    assert generation.read_lines(0.0, limit=4, longest=8) is None
    generation.release_last_line()
    chunk = generation.read_lines(0.0, limit=4, longest=8)
    assert chunk is not None
    assert (text_of(chunk), chunk.open_end) == (b"89", False)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_the_rest_of_a_line_that_was_cut_is_known_as_that_after_a_restart__R2(
    encoding: str,
) -> None:
    settings = InputTable(paths=["/logs/*"], encoding=encoding, longest_event_bytes=10)
    _, generation = opened(("first\n" + "x€" * 1000 + "\nnext\n").encode(encoding), settings)
    events = list[Event]()
    while (chunk := generation.read_lines(0.0, limit=256)) is not None:
        events += generation.cutter.cut_events(chunk, 1 << 30)
        generation.resume_from(generation.number_at(generation.position))
    kept = [event.message for event in events if event.left_out < event.end - event.start]
    assert kept[0] + kept[2] == "firstnext"
    assert (len(kept), kept[1][:2]) == (3, "x€")


def test_what_follows_a_line_that_was_sent_without_its_end_is_a_line_after_a_restart__P3() -> None:
    settings = InputTable(paths=["/logs/*"], longest_event_bytes=10)
    disk, generation = opened(b"first\n" * 100 + b"half", settings)
    generation.release_last_line()
    assert generation.read_lines(0.0, limit=1024) is not None
    generation.resume_from(generation.number_at(generation.position))
    disk.write(PATH, b" and half\n")
    look(disk, generation)
    chunk = generation.read_lines(1.0, limit=1024)
    assert chunk is not None
    (event,) = generation.cutter.cut_events(chunk, 10)
    assert (event.message, event.left_out) == (" and half", 0)


@given(
    content=st.text("aä€😀\n", min_size=40, max_size=300).map(str.encode), limit=st.integers(8, 64)
)
@settings(max_examples=200)
def test_every_byte_comes_once_and_no_character_is_cut__P1(content: bytes, limit: int) -> None:
    _, generation = opened(content)
    generation.impatient = True
    at, parts = 0, []
    while generation.has_lines:
        chunk = generation.read_lines(0.0, limit=limit)
        if chunk is None:
            break
        assert chunk.start == at
        assert chunk.tail_at(at) == content[max(0, at - 256) : at]
        text_of(chunk).decode()
        assert chunk.open_end == (
            b"\n" not in text_of(chunk) and at + len(text_of(chunk)) < len(content)
        ) or len(text_of(chunk)) + at == len(content)
        at += len(text_of(chunk))
        assert chunk.number_at(at) == generation.number_at(at) == number_of(at, content[:at])
        parts.append(text_of(chunk))
    assert b"".join(parts) == content


@given(st.binary(max_size=2000), st.booleans())
def test_a_first_line_ends_at_its_newline_or_at_1024_bytes__G2(head: bytes, ended: bool) -> None:
    first = FirstLine.find_in(head, ended=ended)
    if b"\n" in head[:1024]:
        assert first is not None
        assert first.text == head[: head.index(b"\n")]
        assert first.span == len(first.text) + 1
    elif len(head) >= 1024:
        assert first is not None
        assert first.text == head[:1024]
    else:
        assert (first is not None) == (ended and bool(head))
    if first is not None:
        assert first.crc == crc32(head[: first.span])


def test_positions_stay_in_the_number__P1() -> None:
    assert position_of(number_of(2**46 - 1, b"x")) == 2**46 - 1


def test_replaced_unread_bytes_are_noticed_though_the_first_line_is_the_same__G4() -> None:
    disk, generation = opened(b"#Version: 1.0\none\n")
    rewrite(disk, b"#Version: 1.0\nanother\n")
    with pytest.raises(SourceTruncatedError):
        look(disk, generation)


def test_a_look_notices_a_truncation_between_the_size_and_the_bytes__G4() -> None:
    disk, generation = opened(b"one\n")
    append(disk, b"two\n" * 100)
    stat = disk.stat(PATH)
    rewrite(disk, b"one\n")
    with pytest.raises(SourceTruncatedError):
        generation.on_stat(stat, 1.0)
    assert generation.seen == 4


def test_an_end_that_was_truncated_and_written_again_has_the_bytes_that_are_there__G4() -> None:
    disk, generation = found(b"first\n")
    assert generation.file is not None
    stat, pread = disk.stat(PATH), generation.file.pread

    def rewritten(size: int, offset: int) -> bytes:
        assert generation.file is not None
        generation.file.pread = pread  # type: ignore[method-assign]
        rewrite(disk, b"")
        data = pread(size, offset)
        append(disk, b"second\n")
        return data

    generation.file.pread = rewritten  # type: ignore[method-assign]
    generation.on_stat(stat, 1.0)
    assert generation.seen == len(b"first\n")
    generation.on_stat(disk.stat(PATH), 2.0)  # it goes on as what it is now
    assert generation.seen == len(b"second\n")


def test_what_was_seen_must_be_there_still__G4() -> None:
    disk, generation = found(b"first\n")
    generation.on_stat(disk.stat(PATH), 1.0)
    generation.verify_seen()
    append(disk, b"more\n")
    generation.verify_seen()
    rewrite(disk, b"second\nlife\n")
    with pytest.raises(SourceTruncatedError):
        generation.verify_seen()
    rewrite(disk, b"")
    with pytest.raises(SourceTruncatedError):
        generation.verify_seen()


def test_what_was_seen_must_be_in_the_first_bytes__G4() -> None:
    disk, generation = found(b"first\n")
    generation.on_stat(disk.stat(PATH), 1.0)
    generation.verify_seen(generation.read_head())
    append(disk, b"more\n")
    generation.verify_seen(generation.read_head())
    for other in (b"second\nlife\n", b"firs\n", b""):
        rewrite(disk, other)
        with pytest.raises(SourceTruncatedError):
            generation.verify_seen(generation.read_head())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"first\n", b"other\n" * 3),
        (b"first\nsecond\n", b"other\nsecond\n" * 3),
        (b"first\nsecond\n", b"first\nanother\n"),  # only its end differs
    ],
)
def test_no_line_of_a_life_that_comes_amid_a_read_is_read__G4(before: bytes, after: bytes) -> None:
    disk, generation = found(before)
    generation.on_stat(disk.stat(PATH), 0.0)
    first_line = FirstLine.find_in(before)
    assert first_line is not None
    generation.set_first_line(first_line)
    assert generation.file is not None
    pread = generation.file.pread

    def rewritten(size: int, offset: int) -> bytes:
        if size == CHUNK_BYTES:  # the lines, after all that is compared first
            rewrite(disk, after)
        return pread(size, offset)

    generation.file.pread = rewritten  # type: ignore[method-assign]
    with pytest.raises(SourceTruncatedError):
        generation.read_lines(1.0)


def test_a_file_that_names_more_bytes_than_can_be_read_is_no_truncated_one__G4() -> None:
    disk, generation = opened(b"one\n")
    assert generation.file is not None
    append(disk, b"two\n" * 100)
    stat = disk.stat(PATH)
    generation.file.pread = lambda size, offset: b"one\n"[offset : offset + size]  # type: ignore[method-assign]
    generation.on_stat(stat, 1.0)


def test_the_end_of_a_line_without_end_that_was_read_last_is_known__P1() -> None:
    content = b"x" * (TAIL_BYTES + 1)
    _, generation = opened(content)
    generation.close_handle()
    generation.on_whole_file_read(content)
    assert generation.last_number == number_of(len(content), content)
