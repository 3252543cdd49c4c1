"""What the guard lets through, whatever the splits."""

import structlog
from hypothesis import given
from hypothesis import strategies as st

from logdrive.net.http.guard import FrameGuard, RateLimit
from logdrive.net.http.handling import FaultLog
from logdrive.net.http.limits import PREFACE, HttpLimits, Rate
from tests.logdrive.net.http.support import frame

_data = st.builds(
    lambda stream, ends, payload: frame(0, ends, stream, payload),
    st.integers(1, 2),
    st.sampled_from([0, 1]),
    st.binary(max_size=30),
)
_padded = st.binary(max_size=9).map(lambda payload: frame(0, 8, 1, b"\x02" + payload + b"\0\0"))
_others = st.builds(
    lambda kind, payload: frame(kind, 0, 1, payload),
    st.sampled_from([1, 3, 4, 6, 8, 9, 77]),
    st.binary(max_size=30),
)
_goaway = st.binary(min_size=8, max_size=20).map(lambda payload: frame(7, 0, 0, payload))


def _parsed(stream: bytes) -> list[bytes]:
    """Return the frames of *stream*, DATA frames of one stream joined up to END_STREAM."""
    found: list[bytes] = []
    run = b""  # stream of the DATA frame that the next one is joined to
    position = 0
    while position < len(stream):
        raw = stream[
            position : position + 9 + int.from_bytes(stream[position : position + 3], "big")
        ]
        position += len(raw)
        plain = raw[3] == 0 and not raw[4] & 8
        if plain and run == raw[5:9]:
            found[-1] = frame(0, raw[4], raw[8], found[-1][9:] + raw[9:])
        else:
            found.append(raw)
        run = raw[5:9] if plain and not raw[4] & 1 else b""
    return found


@given(
    st.lists(st.one_of(_data, _data, _padded, _others), max_size=12),
    st.integers(1, 200),
    st.integers(1, 5),
)
def test_frames_pass_in_order_whatever_the_splits(
    frames: list[bytes], step: int, a_turn: int
) -> None:
    stream = PREFACE + b"".join(frames)
    guard = FrameGuard(HttpLimits(frames_a_turn=a_turn), lambda: 0.0, server=True)
    passed = b""
    for start in range(0, len(stream), step):
        for piece in guard.cut(stream[start : start + step]):
            assert piece
            passed += piece
    assert passed.startswith(PREFACE)
    assert _parsed(passed[len(PREFACE) :]) == _parsed(b"".join(frames))


@given(st.lists(st.one_of(_data, _others), max_size=4), _goaway, st.integers(1, 100))
def test_a_goaway_frame_is_kept_back(frames: list[bytes], goaway: bytes, step: int) -> None:
    stream = b"".join([*frames, goaway, *frames])
    guard = FrameGuard(HttpLimits(), lambda: 0.0, server=False)
    passed = b"".join(
        piece
        for start in range(0, len(stream), step)
        for piece in guard.cut(stream[start : start + step])
    )
    assert _parsed(passed) == _parsed(b"".join([*frames, *frames]))
    last = int.from_bytes(goaway[9:13], "big") & 0x7FFF_FFFF
    assert guard.went_away == (last, int.from_bytes(goaway[13:17], "big"))


def test_a_piece_has_no_more_frames_than_a_turn_may() -> None:
    guard = FrameGuard(HttpLimits(frames_a_turn=10), lambda: 0.0, server=False)
    pieces = list(guard.cut(frame(6, 0, 0, b"01234567") * 35))
    assert [len(piece) // 17 for piece in pieces] == [10, 10, 10, 5]


def test_data_passes_before_its_frame_is_complete() -> None:
    guard = FrameGuard(HttpLimits(), lambda: 0.0, server=False)
    whole = frame(0, 1, 5, b"x" * 1000)
    assert list(guard.cut(whole[:500])) == [frame(0, 0, 5, b"x" * 491)]
    assert list(guard.cut(whole[500:])) == [frame(0, 1, 5, b"x" * 509)]


def test_a_rate_allows_a_burst_and_then_so_many_a_second() -> None:
    rate = RateLimit("pings", Rate(3, 2), 100.0)
    assert [rate.allow(100.0) for _ in range(4)] == [True, True, True, False]
    assert [rate.allow(101.0) for _ in range(3)] == [True, True, False]
    assert [rate.allow(1000.0) for _ in range(4)] == [True, True, True, False]


def test_faults_of_one_kind_are_logged_once_in_ten_seconds() -> None:
    now = [0.0]
    faults = FaultLog(lambda: now[0])
    with structlog.testing.capture_logs() as logs:
        for now[0], limit in ((0.0, "pings"), (1.0, "pings"), (2.0, "resets"), (11.0, "pings")):
            faults.note_fault("host:1", "too many", limit)
    assert [(log["limit"], log["others_before"]) for log in logs] == [
        ("pings", 0),
        ("resets", 0),
        ("pings", 1),
    ]
