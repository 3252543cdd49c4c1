"""Each limit of a frame is refused as soon as the last byte of its header is there."""

import pytest

from logdrive.errors import ProtocolError
from logdrive.model.limits import RUN_RECORDS
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    VERSION_1,
    EnvelopeFrame,
    JsonFrame,
    JsonRun,
    KeyValueFrame,
    RefusalCode,
    json_frames,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, PLAIN_LUMBERJACK, LumberjackLimits
from logdrive.wire.lumberjack.reader import FrameDialect, FrameReader, Side
from tests.logdrive.wire.lumberjack.streams import ORIGIN, events

LIMITS = LumberjackLimits(
    envelope=100, payload=90, pairs=3, item=50, window=20, attributes=40, error_text=30
)


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


PAIR = u32(1) + b"k" + u32(1) + b"v"

CASES: dict[str, tuple[FrameDialect, Side, bytes, int]] = {
    # what: (dialect, side, bytes up to the length, the limit)
    "window": ("lumberjack", "reader", b"2W", LIMITS.window),
    "window of logdrive/1": ("logdrive/1", "reader", b"2W", LIMITS.window),
    "envelope": ("lumberjack", "reader", b"2C", LIMITS.envelope),
    "payload": ("lumberjack", "reader", b"2J" + u32(1), LIMITS.payload),
    "payload in version 1": ("lumberjack", "reader", b"1J" + u32(1), LIMITS.payload),
    "pack": ("logdrive/1", "reader", b"2Z" + u32(1), LIMITS.payload),
    "pairs": ("lumberjack", "reader", b"1D" + u32(1), LIMITS.pairs),
    "first key": ("lumberjack", "reader", b"1D" + u32(1) + u32(3), LIMITS.item),
    "first value": ("lumberjack", "reader", b"1D" + u32(1) + u32(3) + u32(1) + b"k", LIMITS.item),
    "second key": ("lumberjack", "reader", b"1D" + u32(1) + u32(3) + PAIR, LIMITS.item),
    "a data frame's keys and values together": (
        "lumberjack",
        "reader",
        b"1D" + u32(1) + u32(3) + u32(46) + b"k" * 46,
        LIMITS.payload - 54,
    ),
    "attributes": ("logdrive/1", "reader", b"2S" + u32(1) + ORIGIN.bytes, LIMITS.attributes),
    "text": ("logdrive/1", "writer", b"2E" + u32(1) + b"\0\1", LIMITS.error_text),
}


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("step", [1, 1000])
def test_a_length_over_its_limit_is_refused_from_the_header(what: str, step: int) -> None:
    dialect, side, head, limit = CASES[what]
    frames = make(dialect, side)
    header = head + u32(limit + 1)
    for i in range(0, len(header) - 1, step):
        assert frames.receive_data(header[i : min(i + step, len(header) - 1)]) == []
    with pytest.raises(ProtocolError) as refused:
        frames.receive_data(header[-1:])
    assert (refused.value.code, refused.value.offset) == (RefusalCode.LIMIT, 0)


@pytest.mark.parametrize("what", CASES)
@pytest.mark.parametrize("size", [0xFFFFFFFF, 0x80000000])
def test_lengths_beyond_any_memory_are_refused(what: str, size: int) -> None:
    dialect, side, head, _ = CASES[what]
    with pytest.raises(ProtocolError) as refused:
        make(dialect, side).receive_data(head + u32(size))
    assert refused.value.code == RefusalCode.LIMIT


@pytest.mark.parametrize("what", CASES)
def test_a_length_at_its_limit_is_taken(what: str) -> None:
    dialect, side, head, limit = CASES[what]
    make(dialect, side).receive_data(head + u32(limit))


def make(dialect: FrameDialect, side: Side) -> FrameReader:
    return FrameReader(LIMITS, side=side, dialect=dialect)


def test_a_long_event_behind_short_ones_is_refused_from_its_header() -> None:
    stream = b"".join(json_frames(1, [b"{}"] * 5)) + b"2J" + u32(6) + u32(LIMITS.payload + 1)
    steps = make("lumberjack", "reader").receive_in_steps(stream)
    assert len(events(next(steps))) == 5
    with pytest.raises(ProtocolError) as refused:
        next(steps)
    assert (refused.value.code, refused.value.offset) == (RefusalCode.LIMIT, 5 * 12)


def test_a_long_event_that_is_all_there_is_refused_too() -> None:
    stream = b"".join(json_frames(1, [b"{}", b"x" * (LIMITS.payload + 1), b"{}"]))
    with pytest.raises(ProtocolError, match=f"over {LIMITS.payload}"):
        make("lumberjack", "reader").receive_data(stream)


def test_limits_hold_inside_envelopes() -> None:
    content = JsonFrame(1, b"x" * (LIMITS.payload + 1)).encode()
    with pytest.raises(ProtocolError) as refused:
        make("lumberjack", "reader").receive_data(EnvelopeFrame(pack(content)).encode())
    assert refused.value.code == RefusalCode.LIMIT


@pytest.mark.parametrize("payloads", [[b""], [b"{}", b"", b"{}"]])
def test_a_frame_without_json_is_refused(payloads: list[bytes]) -> None:
    with pytest.raises(ProtocolError, match="without JSON") as refused:
        make("lumberjack", "reader").receive_data(b"".join(json_frames(1, payloads)))
    assert refused.value.code == RefusalCode.PROTOCOL


def test_an_envelope_holds_a_limited_number_of_frames() -> None:
    limits = LumberjackLimits(frames=100)
    frames = FrameReader(limits, side="reader", dialect="lumberjack")
    whole = EnvelopeFrame(pack(b"".join(json_frames(1, [b"{}"] * 100)))).encode()
    assert len(events(frames.receive_data(whole))) == 100
    for content in (b"".join(json_frames(1, [b"{}"] * 101)), b"2W\0\0\0\0" * 101):
        with pytest.raises(ProtocolError, match="more than 100 frames") as refused:
            FrameReader(limits, side="reader", dialect="lumberjack").receive_data(
                EnvelopeFrame(pack(content)).encode()
            )
        assert refused.value.code == RefusalCode.LIMIT


def test_the_pairs_of_v1_events_count_with_the_frames_of_their_envelope() -> None:
    limits = LumberjackLimits(frames=100)
    frames = FrameReader(limits, side="reader", dialect="lumberjack")
    event = KeyValueFrame(1, (("key", "value"),) * 24)
    assert len(frames.receive_data(EnvelopeFrame(pack(event.encode() * 4)).encode(VERSION_1))) == 4
    with pytest.raises(ProtocolError, match="more than 100 frames and pairs") as refused:
        frames.receive_data(EnvelopeFrame(pack(event.encode() * 5)).encode(VERSION_1))
    assert refused.value.code == RefusalCode.LIMIT


def test_a_first_byte_that_is_no_version_is_not_taken_for_one() -> None:
    frames = FrameReader(LumberjackLimits(), side="reader", dialect="lumberjack")
    with pytest.raises(ProtocolError, match="begins"):
        frames.receive_data(b"\xff\xff\xff\xff")
    assert frames.version == b""


def test_bare_frames_are_not_limited_in_number() -> None:
    frames = FrameReader(LumberjackLimits(frames=100), side="reader", dialect="lumberjack")
    runs = frames.receive_data(b"".join(json_frames(1, [b"{}"] * 2500)))
    assert [len(run) for run in runs if isinstance(run, JsonRun)] == [
        RUN_RECORDS,
        RUN_RECORDS,
        2500 - 2 * RUN_RECORDS,
    ]


def test_the_limits_are_those_of_the_documents() -> None:
    """docs/protocols/lumberjack.md, rules R3 and D1."""
    plain, native = PLAIN_LUMBERJACK, LOGDRIVE_1
    assert (plain.envelope, plain.inflated, plain.payload, plain.pairs, plain.item) == (
        1 << 24,
        1 << 26,
        1 << 24,
        1024,
        1 << 20,
    )
    assert (
        (plain.frames_free, plain.frames_per_byte)
        == (native.frames_free, native.frames_per_byte)
        == (4096, 2)
    )
    assert (native.envelope, native.inflated, native.payload, native.window) == (
        1 << 23,
        1 << 23,
        768 << 10,
        65_535,
    )
    assert (native.attributes, native.error_text, native.zstd_window) == (
        16 << 10,
        1 << 10,
        1 << 23,
    )
