"""Steps of a reader: each unpacks, cuts and keeps little, whatever an envelope holds."""

import random
import tracemalloc
import zlib
from collections.abc import Iterator
from itertools import pairwise

import pytest

from logdrive.errors import ProtocolError
from logdrive.model.units import KIB, MIB
from logdrive.wire.lumberjack.envelope import KEPT, Codec, pack
from logdrive.wire.lumberjack.frames import (
    EnvelopeFrame,
    Frame,
    JsonFrame,
    JsonRun,
    KeyValueFrame,
    RefusalCode,
    json_frames,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, LumberjackLimits
from logdrive.wire.lumberjack.reader import STEP_FRAMES, FrameReader
from tests.logdrive.wire.lumberjack.streams import events, reader

SAME_NUMBER = JsonFrame(1, b"{}").encode()
EVENT = b'"' + b" " * (700 * KIB) + b'"'
PIECE = 2 * MIB


def bomb(count: int = 81) -> bytes:
    """Return an envelope of some 60 kB that holds *count* events of 700 KiB."""
    return EnvelopeFrame(pack(json_frames(1, [EVENT] * count), level=1)).encode()


def opened(frames: FrameReader, stream: bytes) -> Iterator[int]:
    """Return what *frames* keep of an envelope after each step."""
    for _ in frames.receive_in_steps(stream):
        yield frames.unpacked_bytes
    yield frames.unpacked_bytes


def _take_all(steps: Iterator[list[Frame]], given: list[Frame]) -> None:
    """Append the frames of *steps* to *given*, up to an error."""
    for step in steps:
        given += step


@pytest.mark.parametrize("enveloped", [False, True])
def test_a_step_gives_a_few_frames_whatever_their_numbers(enveloped: bool) -> None:
    content = SAME_NUMBER * (5 * STEP_FRAMES)
    stream = EnvelopeFrame(pack(content)).encode() if enveloped else content
    limits = LumberjackLimits(frames_per_byte=1000)
    steps = list(reader(limits=limits).receive_in_steps(stream))
    assert max(map(len, steps)) == STEP_FRAMES
    assert sum(map(len, steps)) == 5 * STEP_FRAMES


def test_nothing_is_unpacked_before_the_first_step_of_an_envelope_was_taken() -> None:
    frames = reader()
    steps = frames.receive_in_steps(JsonFrame(1, b"{}").encode() + bomb())
    assert len(events(next(steps))) == 1
    assert frames.unpacked_bytes == 0
    next(steps)
    assert 0 < frames.unpacked_bytes <= PIECE


def test_of_a_long_envelope_a_few_mebibytes_are_in_memory_however_much_it_holds() -> None:
    stream = bomb()
    tracemalloc.start()
    try:
        frames = reader()
        most, count = 0, 0
        for step in frames.receive_in_steps(stream):
            most, count = max(most, frames.unpacked_bytes), count + len(events(step))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 81
    assert PIECE < most <= KEPT
    assert peak < 3 * KEPT, "81 events take 57 MB"
    assert frames.unpacked_bytes == 0


def test_unpacked_bytes_are_counted_from_step_to_step_until_they_are_returned() -> None:
    content = json_frames(1, [bytes(700 * KIB)] * 5)
    held = list(opened(reader(), EnvelopeFrame(pack(content)).encode()))
    growth = [after - before for before, after in pairwise(held)]
    assert max(growth) <= PIECE
    assert max(held) == sum(map(len, content))
    assert held[-1] == 0


@pytest.mark.parametrize("size", [KIB, 700 * KIB, 3 * MIB, 15 * MIB])
def test_frames_across_the_pieces_of_a_long_envelope_are_whole(size: int) -> None:
    noise = random.Random(size)
    payloads = [noise.randbytes(size - n % 7) for n in range(max(3, 10 * MIB // size))]
    content = b"".join(json_frames(1, payloads))
    assert len(content) > KEPT
    frames = reader(limits=LumberjackLimits(envelope=64 * MIB))
    runs = [
        f
        for f in frames.receive_data(EnvelopeFrame(pack(content)).encode())
        if isinstance(f, JsonRun)
    ]
    assert [payload for run in runs for payload in run.payloads] == payloads
    assert runs[0].first == 1
    assert runs[-1].last == len(payloads)


def test_key_value_frames_across_the_pieces_of_a_long_envelope_are_whole() -> None:
    sent = [KeyValueFrame(n, (("key", "v" * MIB), ("other", "w" * 300_000))) for n in range(1, 12)]
    content = b"".join(frame.encode() for frame in sent)
    assert len(content) > KEPT
    assert reader().receive_data(EnvelopeFrame(pack(content)).encode(b"1")) == sent


def test_of_a_long_envelope_with_a_wrong_checksum_nothing_is_given() -> None:
    packed = bytearray(zlib.compress(b"".join(json_frames(1, [EVENT] * 81))))
    packed[-1] ^= 1
    given: list[Frame] = []
    with pytest.raises(ProtocolError, match="does not inflate"):
        _take_all(reader().receive_in_steps(EnvelopeFrame(bytes(packed)).encode()), given)
    assert given == []


def test_a_long_envelope_that_ends_within_a_frame_is_refused() -> None:
    content = b"".join(json_frames(1, [EVENT] * 81))
    with pytest.raises(ProtocolError, match="ends within a frame"):
        reader().receive_data(EnvelopeFrame(pack(content[:-1])).encode())


def test_more_frames_than_packed_bytes_can_number_are_refused_after_a_few_thousand() -> None:
    """262,000 frames with equal numbers take 6 kB; frames that count up take a byte each, or
    more.
    """
    whole = EnvelopeFrame(zlib.compress(SAME_NUMBER * 262_000, 9)).encode()
    assert len(whole) < 7000
    given: list[Frame] = []
    with pytest.raises(ProtocolError, match="more frames than its size allows") as refused:
        _take_all(reader().receive_in_steps(whole), given)
    assert refused.value.code == RefusalCode.LIMIT
    assert 4096 < len(given) <= 4096 + 2 * len(whole) + 1


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
@pytest.mark.parametrize("level", [1, 3])
def test_frames_that_count_up_are_taken_however_well_they_pack(codec: Codec, level: int) -> None:
    content = json_frames(1, [b"{}"] * 65_535)
    packed = pack(content, codec, level)
    frames = reader("logdrive/1", limits=LOGDRIVE_1)
    with_run = [
        f for f in frames.receive_data(EnvelopeFrame(packed).encode()) if isinstance(f, JsonRun)
    ]
    assert sum(map(len, with_run)) == 65_535
    # some take little more than a byte each, and so they are
    assert len(packed) < 65_535 * 1.5 or codec == "zlib"
