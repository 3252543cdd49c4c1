"""Lines of container runtimes: parts are joined, and stdout and stderr may take turns."""

from collections.abc import Sequence
from typing import Any, Literal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.files import InputTable
from agent.events.cutter import EventCutter
from agent.events.cutting.make import make_cutter
from agent.events.event import Event
from logdrive.records.chunk import TextChunk
from tests.agent.events.cutting.world import bytes_of, read_events

TIME = "2026-01-02T10:00:%02d.123456789Z"
Line = tuple[str, str, bool]


class CriTable(InputTable, frozen=True, kw_only=True):
    container: Literal["cri", "docker", "auto"] | None = "cri"


def cutter(container: str, stream: bytes = b"", **keys: Any) -> EventCutter:
    """Return the cutter of files of this runtime, one of which begins with *stream*."""
    import msgspec

    given = {"paths": ["/"], "container": container, **keys}
    return make_cutter(msgspec.convert(given, CriTable), stream[:64])


def cri(stream: str, text: str, *, partial: bool = False, second: int = 0) -> bytes:
    """Return a line of CRI."""
    return f"{TIME % second} {stream} {'P' if partial else 'F'} {text}\n".encode()


def docker(stream: str, text: str, *, partial: bool = False, second: int = 0) -> bytes:
    """Return a line of Docker's json-file."""
    log = text if partial else text + "\n"
    return orjson.dumps({"log": log, "stream": stream, "time": TIME % second}) + b"\n"


WRITERS = {"cri": cri, "docker": docker}


def place(events: Sequence[Event], size: int) -> bytes:
    """Return the stream of *size* bytes that *events* are of, each byte where it was."""
    stream, covered = bytearray(size), 0
    at = 0
    for event in events:
        assert event.start == at
        at, data = event.end, bytes_of(event)
        for start, end in event.parts or ((event.start, event.end),):
            stream[start:end], data = data[: end - start], data[end - start :]
            covered += end - start
        assert data == b""
    assert covered == at == size
    return bytes(stream)


@pytest.mark.parametrize("form", WRITERS)
def test_the_parts_of_a_line_are_one_event_though_others_stand_between_them(form: str) -> None:
    write = WRITERS[form]
    lines = [
        write("stdout", "one"),
        write("stdout", "a", partial=True),
        write("stderr", "x", partial=True),
        write("stdout", "b", partial=True),
        write("stderr", "y"),
        write("stderr", "between"),
        write("stdout", "c"),
        write("stderr", "last"),
    ]
    stream = b"".join(lines)
    events = read_events(cutter(form), stream, [])
    shown = [bytes_of(event) for event in events]
    assert shown == [
        lines[0],
        lines[1] + lines[3] + lines[6],
        lines[2] + lines[4],
        lines[5],
        lines[7],
    ]
    assert [event.tied for event in events] == [False, True, True, False, False]
    assert place(events, len(stream)) == stream


some_lines = st.lists(
    st.tuples(
        st.sampled_from(["stdout", "stderr"]),
        st.sampled_from(["S", "c", "S é", "", "S\\n", " stdout P"]),
        st.booleans(),
        st.sampled_from([0, 0, 0, 3, 7]),
    ),
    max_size=15,
)


@given(
    form=st.sampled_from(["cri", "docker"]),
    lines=some_lines,
    torn=st.sampled_from(
        [
            b"",
            b"no runtime's\n",
            b"\xff",
            cri("stdout", "tail", partial=True),
            docker("stdout", "tail")[:-2],
        ]
    ),
    multiline=st.sampled_from(
        [None, {"start": "^S"}, {"continue": "c"}, {"start": "^S", "max_lines": 2}]
    ),
    sizes=st.lists(st.integers(1, 120)),
)
def test_any_split_of_a_stream_gives_the_same_events_which_have_each_byte_once(
    form: str,
    lines: list[tuple[str, str, bool, int]],
    torn: bytes,
    multiline: dict[str, Any] | None,
    sizes: list[int],
) -> None:
    write = WRITERS[form]
    stream = b"".join(write(name, text, partial=p, second=s) for name, text, p, s in lines) + torn
    whole = read_events(cutter(form, multiline=multiline), stream, [])
    assert place(whole, len(stream)) == stream
    assert read_events(cutter(form, multiline=multiline), stream, sizes) == whole


def test_patterns_of_multiline_see_what_the_container_wrote() -> None:
    lines = [
        cri("stdout", "10:00 ERROR no"),
        cri("stderr", "10:00 other"),
        cri("stdout", "java.lang.RuntimeException: no"),
        cri("stdout", "\tat shop.Cart", partial=True),
        cri("stdout", ".add(Cart.java:7)"),
        cri("stderr", "10:01 other"),
        cri("stdout", "10:01 INFO well"),
    ]
    events = read_events(cutter("cri", multiline={"preset": "java"}), b"".join(lines), [])
    assert [bytes_of(event) for event in events] == [
        lines[0] + lines[2] + lines[3] + lines[4],
        lines[1],
        lines[5],
        lines[6],
    ]


def test_a_silent_stream_does_not_hold_up_the_other_one() -> None:
    lines = [cri("stderr", "S")] + [cri("stdout", "S", second=s) for s in range(10)]
    stream = b"".join(lines)
    end, _ = cutter("cri", multiline={"start": "S"}).end_of_events(
        stream, 0, whole=False, final=False
    )
    # all but the last line, with which an event may go on
    assert end == len(stream) - len(lines[-1])


def test_events_without_end_that_hold_each_other_up_are_cut() -> None:
    lines = [cri(("stdout", "stderr")[n % 2], "x" * 900, partial=True) for n in range(1200)]
    stream = b"".join(lines)
    events = read_events(cutter("cri"), stream, [])
    assert place(events, len(stream)) == stream
    assert max(event.end - event.start for event in events) < 512 * 1024


def test_events_between_each_other_are_not_too_much_for_one_run() -> None:
    line = cri("stdout", "x" * 900, partial=True)
    other = cri("stderr", "y" * 100)
    stream = (line * 5 + other) * 100
    events = read_events(cutter("cri"), stream, [])
    assert place(events, len(stream)) == stream
    together = 0
    for event in events:
        together += event.end - event.start
        assert together <= 64 * 1024
        together = together if event.tied else 0
    # the same again, whatever was parted before
    chunk, cutting = TextChunk.from_whole_file(stream), cutter("cri")
    cutting.end_of_events(stream, 0, whole=False, final=True)
    assert cutting.cut_events(chunk, 1000) == cutting.cut_events(chunk, 1000) == events
    # many lines are still together
    assert len(events) < 100 + 30


def test_the_first_line_of_a_file_says_which_runtime_wrote_it() -> None:
    for form, write in WRITERS.items():
        stream = write("stdout", "a", partial=True) + write("stdout", "b")
        assert len(read_events(cutter("auto", stream), stream, [])) == 1, form
    stream = b"2026-01-02 stdout is full\nand so on\n"
    assert len(read_events(cutter("auto", stream), stream, [])) == 2


@pytest.mark.parametrize(
    "line",
    [
        b'{"log":"started","level":"info"}\n',
        b'{"log":"started","stream":"orders-1","time":"2026-01-02T10:00:00Z"}\n',
        b'{"log":"started","stream":"stdout","time":"10:00"}\n',
    ],
)
def test_lines_of_a_program_that_begin_as_dockers_are_events_each(line: bytes) -> None:
    events = read_events(cutter("auto", line), line * 100, [len(line) * 99])
    assert [bytes_of(event) for event in events] == [line] * 100


def test_a_long_line_of_a_container_is_kept_up_to_the_limit() -> None:
    stream = cri("stdout", "x" * 100) + cri("stdout", "y")
    long = read_events(cutter("cri", longest_event_bytes=50), stream, [], limit=64)
    assert sum(event.end - event.start for event in long) == len(stream)
    kept = [event for event in long if event.left_out < event.end - event.start]
    assert (len(kept[0].message), kept[0].flags) == (50, ("truncated",))
