"""Compressed files, unpacked piece by piece."""

import random

import pytest
import zstandard

from agent.inputs.files.compressed.codecs import (
    DamagedError,
    IncompleteError,
    Unpacker,
    open_unpacker,
)
from agent.inputs.files.compressed.unpacked import STEP_BYTES, SeekingError, Surveyor, UnpackedFile
from logdrive.model.numbers import number_of
from logdrive.model.units import KIB, MIB
from tests.simulation.hosts.compressing import SUFFIXES
from tests.support.memory.disk import MemoryDisk

PATH = "/logs/x.log.1"
DATA = b"".join(b"line %d\n" % number for number in range(30_000))
every_suffix = pytest.mark.parametrize("suffix", SUFFIXES)


def _opened(packed: bytes, suffix: str) -> Unpacker:
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, packed)
    return open_unpacker(disk.open(PATH), suffix)


def _unpacked(packed: bytes, suffix: str, room: int = 64 * KIB) -> bytes:
    unpacker, parts = _opened(packed, suffix), list[bytes]()
    while part := unpacker.read(room):
        assert len(part) <= room
        parts.append(part)
    return b"".join(parts)


def _survey(surveyor: Surveyor) -> None:
    while not surveyor.advance():
        continue


@every_suffix
@pytest.mark.parametrize("room", [100, 4096, MIB])
def test_pieces_of_any_size_make_the_content(suffix: str, room: int) -> None:
    assert _unpacked(SUFFIXES[suffix](DATA), suffix, room) == DATA


@every_suffix
def test_several_streams_are_one_content(suffix: str) -> None:
    """As `cat a.gz b.gz` makes them, also an empty one among them."""
    pack = SUFFIXES[suffix]
    assert _unpacked(pack(DATA) + pack(b"") + pack(b"end\n"), suffix) == DATA + b"end\n"


@pytest.mark.parametrize("suffix", [".gz", ".xz"])
def test_zeros_may_follow_a_stream(suffix: str) -> None:
    assert _unpacked(SUFFIXES[suffix](DATA) + bytes(100_000), suffix) == DATA


def test_frames_of_zstd_that_are_to_be_skipped_are() -> None:
    skipped = (0x184D2A51).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"hello"
    packed = SUFFIXES[".zst"](DATA)
    assert _unpacked(skipped + packed + skipped, ".zst") == DATA


@every_suffix
def test_each_cut_is_noticed(suffix: str) -> None:
    """Wherever the bytes end before the trailer: the file is incomplete, never whole."""
    packed = SUFFIXES[suffix](b"some lines\n" * 50)
    for size in range(len(packed)):
        with pytest.raises(IncompleteError):
            _unpacked(packed[:size], suffix)


@every_suffix
def test_each_damaged_byte_is_an_error_or_changes_nothing(suffix: str) -> None:
    """Bytes of a head may mean nothing; no other content is taken for whole."""
    content = b"some lines, and others\n" * 50
    packed = SUFFIXES[suffix](content)
    for at in range(len(packed)):
        damaged = bytearray(packed)
        damaged[at] ^= 0x55
        try:
            assert _unpacked(bytes(damaged), suffix) == content, at
        except (DamagedError, IncompleteError):
            continue


@every_suffix
def test_what_is_no_such_file_is_damaged(suffix: str) -> None:
    with pytest.raises(DamagedError):
        _unpacked(random.Random(1).randbytes(5000), suffix)


def test_a_frame_that_asks_for_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters)
    packer = compressor.compressobj()  # without its size, a frame needs its whole window
    packed = packer.compress(DATA) + packer.flush()
    with pytest.raises(DamagedError):
        _unpacked(packed, ".zst")


@every_suffix
def test_a_few_bytes_that_grow_to_many_come_in_steps(suffix: str) -> None:
    unpacker = _opened(SUFFIXES[suffix](bytes(3 * MIB)), suffix)
    total = 0
    while part := unpacker.read(64 * KIB):
        assert len(part) <= 64 * KIB
        total += len(part)
    assert total == 3 * MIB


def test_a_bomb_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.inputs.files.compressed.unpacked._FEW_BYTES", MIB)
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, SUFFIXES[".zst"](bytes(5 * MIB)))
    surveyor = Surveyor(disk.open(PATH), ".zst", b"\n", lambda survey, line: ())
    with pytest.raises(DamagedError, match="1000 times"):
        _survey(surveyor)
    assert surveyor.survey.size < 5 * MIB


@every_suffix
def test_a_survey_knows_what_reading_the_content_would(suffix: str) -> None:
    content = DATA * 8
    positions = (0, 5, 300, 64 * KIB, MIB + 7, len(content))
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, SUFFIXES[suffix](content))
    surveyor = Surveyor(disk.open(PATH), suffix, b"\n", lambda survey, line: positions)
    _survey(surveyor)
    survey = surveyor.survey
    assert survey.first_line is not None
    assert (survey.size, survey.first_line.text) == (len(content), b"line 0")
    for position in positions:
        assert survey.agrees_at(number_of(position, content[:position]))
        assert position == 0 or not survey.agrees_at(number_of(position, b"others"))
    assert not survey.unknown
    assert not survey.agrees_at(number_of(77, content[:77]))
    assert survey.unknown, "it was not compared there"


@every_suffix
def test_reads_go_forward_and_back_a_little_or_say_that_they_seek(suffix: str) -> None:
    content = b"".join(b"line %d\n" % number for number in range(250_000))
    disk = MemoryDisk(["/logs"])
    disk.write(PATH, SUFFIXES[suffix](content))
    file = UnpackedFile(disk.open(PATH), suffix)
    assert file.pread(100_000, 0) == content[:100_000]
    assert file.pread(100_000, 50_000) == content[50_000:150_000]
    assert file.pread(10, 0) == content[:10], "the first bytes are kept"
    far = len(content) - 50
    with pytest.raises(SeekingError):
        file.pread(100, far)
    while not file.advance():
        assert file.end <= far
    assert file.pread(100, far) == content[far:]
    with pytest.raises(SeekingError):
        file.pread(100, STEP_BYTES + 300 * KIB)
