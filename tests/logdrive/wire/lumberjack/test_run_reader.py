"""Rules D1 and R3: which frames a `logdrive/1` writer may send, in which order, and how many."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import ProtocolError
from logdrive.model.framing import frame_events
from logdrive.model.limits import RUN_BYTES
from logdrive.model.numbers import CLOSED
from logdrive.model.records import DATA, END, GAP
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    EnvelopeFrame,
    Frame,
    JsonRun,
    RefusalCode,
    RunFrame,
    SourceFrame,
    WindowFrame,
    json_frames,
)
from logdrive.wire.lumberjack.limits import LIVE_INDICES, WINDOW_BYTES
from logdrive.wire.lumberjack.run_reader import RunReader, RunReceived, WindowEnd
from tests.logdrive.wire.lumberjack.streams import ORIGIN, VECTORS, kinds_taken, reader

N = 1 << 16  # the number of position 1
SOURCE = SourceFrame(3, ORIGIN, b"{}")


def run(
    previous: int = 0,
    number: int = N,
    *,
    index: int = 3,
    kind: int = DATA,
    events: int = 1,
    records: int = 1,
) -> RunFrame:
    return RunFrame(index, kind, previous, number, 0, 0, events, records)


def js(first: int, *payloads: bytes) -> JsonRun:
    return JsonRun.of(first, payloads or (b"{}",))


def received(*frames: Frame) -> Sequence[Any]:
    return RunReader().check_frames([SOURCE, *frames])[1:]


def refused(*frames: Frame) -> ProtocolError:
    """Return why the last of *frames* is refused; those before it must be accepted."""
    runs = RunReader()
    runs.check_frames([SOURCE, *frames[:-1]])
    with pytest.raises(ProtocolError) as error:
        runs.check_frames(frames[-1:], offset=77)
    assert error.value.offset == 77
    return error.value


def is_due(frame: Frame, *before: Frame) -> bool:
    runs = RunReader()
    runs.check_frames([SOURCE, *before])
    try:
        runs.check_frames([frame])
    except ProtocolError as error:
        return "is due" not in str(error)
    return True


def test_every_frame_that_a_writer_may_send_is_due_somewhere() -> None:
    kinds = kinds_taken("logdrive/1", "reader")
    vectors = [(bytes.fromhex(v["hex"]), v["dialect"]) for v in VECTORS if v["side"] == "reader"]
    frames = {
        type(frame): frame
        for stream, dialect in vectors
        if chr(stream[1]) in kinds - {"C"}  # envelopes are opened before
        for frame in reader(dialect).receive_data(stream)
    }
    assert {WindowFrame, SourceFrame} < frames.keys()
    places = ((), (WindowFrame(1),), (WindowFrame(1), run()))
    for frame in frames.values():
        assert any(is_due(frame, *before) for before in places), frame


def test_a_window_of_runs_gives_each_run_and_its_end() -> None:
    first, second = run(events=5, records=2), run(N, 2 * N)
    given_ = received(WindowFrame(3), first, js(1, b"a", b"bc"), second, js(3, b"d"))
    assert given_ == [
        RunReceived(first, 2, js(1, b"a", b"bc").parts, 19),
        RunReceived(second, 3, js(3, b"d").parts, 9),
        WindowEnd(3),
    ]


def test_a_run_gives_its_records_framed() -> None:
    for payloads in ([b"a"], [b"a", b"bc", b"d" * 300]):
        (taken, _) = received(
            WindowFrame(len(payloads)), run(records=len(payloads)), js(1, *payloads)
        )
        assert b"".join(taken.parts) == frame_events(payloads)
        assert (taken.payloads, taken.size) == (payloads, len(frame_events(payloads)))


def test_records_may_come_in_several_reads() -> None:
    runs = RunReader()
    assert runs.check_frames([SOURCE, WindowFrame(3), run(records=3), js(1, b"a")]) == [SOURCE]
    assert runs.check_frames([js(2, b"b")]) == []
    parts = (*js(1, b"a").parts, *js(2, b"b").parts, *js(3, b"c").parts)
    assert runs.check_frames([js(3, b"c")]) == [
        RunReceived(run(records=3), 3, parts, 27),
        WindowEnd(3),
    ]


def test_numbers_run_on_over_windows() -> None:
    assert [
        g.last
        for g in received(WindowFrame(1), run(), js(1), WindowFrame(1), run(N, 2 * N), js(2))
        if isinstance(g, WindowEnd)
    ] == [1, 2]


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([run()], "frame B where S or W is due"),
        ([js(1)], "frame J where S or W is due"),
        ([WindowFrame(2), WindowFrame(2)], "frame W where B is due"),
        ([WindowFrame(2), js(1)], "frame J where B is due"),
        ([WindowFrame(2), SOURCE], "frame S where B is due"),
        ([WindowFrame(2), run(), SOURCE], "frame S where J or Z is due"),
        ([WindowFrame(2), run(), run(N, 2 * N)], "frame B where J or Z is due"),
        ([WindowFrame(2), run(), WindowFrame(1)], "frame W where J or Z is due"),
        ([WindowFrame(2), run(), js(1), SOURCE], "frame S where B is due"),
        ([WindowFrame(2), run(), js(1), WindowFrame(1)], "frame W where B is due"),
        ([WindowFrame(1), run(), js(1), js(2)], "frame J where S or W is due"),
        ([WindowFrame(2), run(), js(1), js(2)], "frame J where B is due"),
        ([WindowFrame(2), run(), js(1, b"a", b"b")], "more than the 1 records"),
        ([WindowFrame(0)], "a window of no events"),
        ([WindowFrame(1), run(index=4)], "unknown index 4"),
        ([WindowFrame(1), run(records=2)], "2 records in a window that lacks 1"),
    ],
)
def test_frames_out_of_order_are_refused(frames: list[Frame], reason: str) -> None:
    error = refused(*frames)
    assert reason in str(error)
    assert error.code == RefusalCode.PROTOCOL


@pytest.mark.parametrize(("before", "number"), [(0, 0), (0, 2), (1, 1), (1, 3), (1, 2**32 - 1)])
def test_a_number_that_does_not_run_on_is_refused(before: int, number: int) -> None:
    frames: list[Frame] = [WindowFrame(1), run(), js(1)] if before else []
    assert "sequence number" in str(refused(*frames, WindowFrame(1), run(), js(number)))


@pytest.mark.parametrize(
    "bad",
    [
        run(N, N),
        run(2 * N, N),
        run(-1, N),
        run(-(2**63), N),
        run(CLOSED, CLOSED + N, kind=END, events=0),
        run(0, CLOSED + N),
        run(0, CLOSED + N, kind=GAP, events=0),
        run(0, N, kind=END, events=0),
        run(kind=3, events=0),
        run(kind=255),
        run(kind=GAP, events=1),
        run(kind=GAP, events=0, records=2),
        run(0, CLOSED + N, kind=END, events=1),
        run(records=0),
        run(kind=GAP, events=0, records=0),
        RunFrame(3, DATA, 0, N, -1, 0, 1, 1),
        RunFrame(3, DATA, 0, N, 0, -1, 1, 1),
    ],
)
def test_a_run_that_contradicts_itself_is_refused(bad: RunFrame) -> None:
    assert refused(WindowFrame(5), bad).code == RefusalCode.PROTOCOL


@pytest.mark.parametrize(
    "good",
    [
        run(),
        run(events=0),
        run(0, N, kind=GAP, events=0),
        run(N, CLOSED + N, kind=END, events=0),
        run(N, N + 1),
        RunFrame(3, DATA, 0, CLOSED - 1, 2**63 - 1, 2**63 - 1, 2**32 - 1, 1),
    ],
)
def test_runs_of_every_kind_are_taken(good: RunFrame) -> None:
    assert received(WindowFrame(1), good, js(1)) == [
        RunReceived(good, 1, js(1).parts, 10),
        WindowEnd(1),
    ]


def test_a_run_has_at_most_999_records() -> None:
    """Rule R3."""
    assert refused(WindowFrame(1000), run(records=1000)).code == RefusalCode.LIMIT
    assert len(received(WindowFrame(999), run(records=999), js(1, *[b"{}"] * 999))) == 2


def test_a_run_has_at_most_896_kib() -> None:
    """Rule R3: the sum of 8 + payload."""
    half = RUN_BYTES // 2 - 8
    assert len(received(WindowFrame(2), run(records=2), js(1, b"x" * half, b"x" * half))) == 2
    assert (
        refused(WindowFrame(2), run(records=2), js(1, b"x" * half), js(2, b"x" * (half + 1))).code
        == RefusalCode.LIMIT
    )


def window_of(size: int, start: int = 0) -> list[Frame]:
    """Return the frames of a window of 12 runs of one record, *size* bytes unpacked, the first of
    them numbered after *start*.
    """
    overhead = len(run().encode()) + len(b"".join(json_frames(1, [b""])))
    frames: list[Frame] = [WindowFrame(12)]
    for i in range(start, start + 12):
        share = size // 12 + (size % 12 if i == start + 11 else 0)
        frames += [run(i * N, (i + 1) * N), js(i + 1, b"x" * (share - overhead))]
    return frames


def test_a_window_has_at_most_8_mib_unpacked() -> None:
    whole = window_of(WINDOW_BYTES) + window_of(WINDOW_BYTES, 12)
    assert sum(isinstance(g, WindowEnd) for g in received(*whole)) == 2
    error = refused(*window_of(WINDOW_BYTES + 1))
    assert (error.code, "a window of more than" in str(error)) == (RefusalCode.LIMIT, True)


def test_numbers_end_before_they_roll_over() -> None:
    """The writer reconnects before 2^32 - 1; no test sends so many, so this one begins near the
    end.
    """
    runs = RunReader()
    runs.check_frames([SOURCE, WindowFrame(2), run(records=2)])
    runs._sequence = 2**32 - 4
    runs.check_frames([js(2**32 - 3)])
    assert runs.check_frames([js(2**32 - 2)])[-1] == WindowEnd(2**32 - 2)
    with pytest.raises(ProtocolError, match="sequence number 4294967295"):
        runs.check_frames([WindowFrame(1), run(N, 2 * N), js(2**32 - 1)])


def test_a_window_has_at_most_65535_frames() -> None:
    assert refused(WindowFrame(65_536)).code == RefusalCode.LIMIT
    assert received(WindowFrame(65_535)) == []


def test_an_index_names_one_source_until_it_is_freed() -> None:
    other = SourceFrame(3, UUID(int=5), b"{}")
    assert "second source" in str(refused(other))
    assert received(SOURCE) == [SOURCE]  # registered anew, as after a step back
    free = SourceFrame(3, ORIGIN, b"")
    assert received(free) == [free]
    assert "unknown index" in str(refused(free, WindowFrame(1), run()))
    assert "names no source" in str(refused(free, free))
    assert "names no source" in str(refused(SourceFrame(9, ORIGIN, b"")))


def test_the_number_of_live_indices_is_limited() -> None:
    runs = RunReader()
    runs.check_frames([SourceFrame(i, ORIGIN, b"{}") for i in range(LIVE_INDICES)])
    with pytest.raises(ProtocolError) as error:
        runs.check_frames([SourceFrame(LIVE_INDICES, ORIGIN, b"{}")])
    assert error.value.code == RefusalCode.LIMIT
    runs = RunReader()
    runs.check_frames([SourceFrame(i, ORIGIN, b"{}") for i in range(LIVE_INDICES)])
    again = [
        SourceFrame(5, ORIGIN, b"{}"),
        SourceFrame(0, ORIGIN, b""),
        SourceFrame(LIVE_INDICES, ORIGIN, b"{}"),
    ]
    assert runs.check_frames(again) == again


def through(*parts: bytes) -> list[Any]:
    frames, runs = reader("logdrive/1"), RunReader()
    return runs.check_frames(
        frames.receive_data(SOURCE.encode() + b"".join(parts)), offset=frames.offset
    )


def c(content: bytes) -> bytes:
    return EnvelopeFrame(pack(content, "zstd")).encode()


HEAD, RECORDS = run(records=2).encode(), json_frames(1, [b"a", b"b"])


def test_whole_runs_come_bare_or_in_envelopes() -> None:
    for window in (HEAD + b"".join(RECORDS), c(HEAD + b"".join(RECORDS))):
        assert [type(g) for g in through(WindowFrame(2).encode(), window)] == [
            SourceFrame,
            RunReceived,
            WindowEnd,
        ]
    two = (
        c(run().encode() + b"".join(json_frames(1, [b"a"])))
        + run(N, 2 * N).encode()
        + b"".join(json_frames(2, [b"b"]))
    )
    assert [type(g) for g in through(WindowFrame(2).encode(), two)] == [
        SourceFrame,
        RunReceived,
        RunReceived,
        WindowEnd,
    ]


@pytest.mark.parametrize(
    "window",
    [
        c(HEAD) + b"".join(RECORDS),
        HEAD + c(b"".join(RECORDS)),
        c(HEAD + b"".join(RECORDS[:2])) + c(b"".join(RECORDS[2:])),
        c(HEAD + b"".join(RECORDS[:2])) + b"".join(RECORDS[2:]),
    ],
)
def test_a_run_lies_in_one_envelope_or_in_none(window: bytes) -> None:
    with pytest.raises(ProtocolError, match="not in one envelope"):
        through(WindowFrame(2).encode(), window)


scripts = st.lists(
    st.lists(
        st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4), min_size=1, max_size=3
    ),
    max_size=4,
)


@settings(max_examples=60)
@given(scripts, st.booleans(), st.integers(1, 200))
def test_every_run_sent_is_received_whole_however_the_stream_is_split(
    script: list[list[list[bytes]]], packed: bool, step: int
) -> None:
    """A script is windows of runs of records."""
    stream, sequence, position, sent = SOURCE.encode(), 0, 0, list[Any]()
    for window in script:
        stream += WindowFrame(sum(map(len, window))).encode()
        for records in window:
            opened = run(position * N, (position + 1) * N, records=len(records))
            content = opened.encode() + b"".join(json_frames(sequence + 1, records))
            stream += c(content) if packed else content
            sequence, position = sequence + len(records), position + 1
            sent.append((opened, records, sequence))
    frames, runs, got, ends = reader("logdrive/1"), RunReader(), list[Any](), list[int]()
    for i in range(0, len(stream), step):
        for g in runs.check_frames(frames.receive_data(stream[i : i + step])):
            if isinstance(g, RunReceived):
                got.append((g.run, g.payloads, g.last))
            elif isinstance(g, WindowEnd):
                ends.append(g.last)
    assert got == sent
    assert len(ends) == len(script)
    assert ends[-1:] == ([sequence] if script else [])


@settings(max_examples=100)
@given(
    st.lists(
        st.one_of(
            st.builds(WindowFrame, st.integers(0, 4)),
            st.builds(
                run,
                st.integers(0, 3),
                st.integers(0, 4),
                index=st.integers(2, 3),
                kind=st.integers(0, 3),
                records=st.integers(0, 3),
            ),
            st.builds(
                JsonRun.of, st.integers(0, 4), st.lists(st.just(b"{}"), min_size=1, max_size=3)
            ),
            st.builds(
                SourceFrame, st.integers(2, 3), st.just(ORIGIN), st.sampled_from([b"", b"{}"])
            ),
        ),
        max_size=12,
    )
)
def test_frames_in_any_order_raise_only_protocol_errors_and_acknowledge_only_what_came(
    frames: list[Frame],
) -> None:
    runs, records = RunReader(), 0
    try:
        for frame in [SOURCE, *frames]:
            for g in runs.check_frames([frame]):
                if isinstance(g, RunReceived):
                    records += len(g.payloads)
                    assert (len(g.payloads), g.last) == (g.run.records, records)
                elif isinstance(g, WindowEnd):
                    assert g.last == records
    except ProtocolError:
        pass
