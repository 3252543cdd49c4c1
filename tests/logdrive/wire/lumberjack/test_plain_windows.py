"""Windows as deployed writers use them: one scenario for each habit, from the peer's bytes to the
acknowledgements due.
"""

import zlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    JsonFrame,
    JsonRun,
    KeyValueFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.plain_windows import WindowPart, WindowReader, keepalive
from tests.logdrive.wire.lumberjack.streams import ORIGIN, consecutive, encoded, reader


@dataclass
class Receiver:
    """A v1 or v2 reader without sockets: it notes what it would have stored and answered."""

    stored: list[int] = field(default_factory=list)
    acks: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.frames, self.windows = reader(), WindowReader()

    def feed(self, stream: bytes, step: int | None = None) -> "Receiver":
        step = step or len(stream)
        for i in range(0, len(stream), step):
            for part in self.windows.group_frames(
                self.frames.receive_data(stream[i : i + step]), self.frames.version
            ):
                self.on_part(part)
        return self

    def quiet(self) -> "Receiver":
        """Let the writer be idle, so that the acknowledgement due on idleness is noted."""
        if (part := self.windows.end_on_idle()) is not None:
            self.on_part(part)
        return self

    def on_part(self, part: WindowPart) -> None:
        numbers = [
            n
            for e in part.events
            for n in (range(e.first, e.last + 1) if isinstance(e, JsonRun) else [e.sequence])
        ]
        assert part.count == len(numbers)
        self.stored += numbers
        if part.ack is not None:
            self.acks.append(part.ack)


def js(first: int, last: int, version: bytes = b"2") -> bytes:
    return encoded(consecutive(first, [b"{}"] * (last - first + 1)), version)


def ds(first: int, last: int) -> bytes:
    return b"".join(KeyValueFrame(n, (("line", "x"),)).encode(b"1") for n in range(first, last + 1))


def c(content: bytes, version: bytes = b"2") -> bytes:
    return EnvelopeFrame(zlib.compress(content)).encode(version)


def w(count: int, version: bytes = b"2") -> bytes:
    return WindowFrame(count).encode(version)


steps = pytest.mark.parametrize("step", [1, 7, None])


@steps
def test_filebeat_numbers_each_window_from_1(step: int | None) -> None:
    receiver = Receiver().feed((w(5) + c(js(1, 5))) * 2, step)
    assert (receiver.stored, receiver.acks) == ([1, 2, 3, 4, 5] * 2, [5, 5])


@steps
def test_two_windows_in_flight_are_acknowledged_apart_and_in_order(step: int | None) -> None:
    assert Receiver().feed(w(3) + c(js(1, 3)) + w(2) + c(js(1, 2)), step).acks == [3, 2]


@steps
def test_filebeat_at_level_0_sends_bare_frames(step: int | None) -> None:
    assert Receiver().feed(w(3) + js(1, 3) + w(1) + js(1, 1), step).acks == [3, 1]


@steps
def test_pylogbeat_numbers_run_on_and_the_last_is_acknowledged_not_the_count(
    step: int | None,
) -> None:
    assert Receiver().feed(w(3) + c(js(1, 3)) + w(3) + c(js(4, 6)), step).acks == [3, 6]


@steps
def test_pylogbeat_sends_a_window_of_none(step: int | None) -> None:
    receiver = Receiver().feed(w(0) + c(b"") + w(1) + c(js(1, 1)), step)
    assert (receiver.stored, receiver.acks) == ([1], [0, 1])


def test_a_window_of_none_is_not_answered_in_version_1() -> None:
    assert Receiver().feed(w(0, b"1")).acks == []


@steps
def test_timbersnake_puts_the_window_into_the_envelope_and_numbers_from_0(step: int | None) -> None:
    receiver = Receiver().feed(c(w(3) + js(0, 2)), step)
    assert (receiver.stored, receiver.acks) == ([0, 1, 2], [2])


@steps
def test_timbersnake_sends_more_than_its_window_and_nothing_is_dropped(step: int | None) -> None:
    receiver = Receiver().feed(c(w(3) + js(0, 4)), step)
    assert (receiver.stored, receiver.acks) == ([0, 1, 2, 3, 4], [2])
    assert receiver.quiet().acks == [2, 4]


@steps
def test_timbersnake_sends_less_than_its_window(step: int | None) -> None:
    receiver = Receiver().feed(c(w(3) + js(0, 1)), step)
    assert (receiver.stored, receiver.acks) == ([0, 1], [])


@steps
def test_jls_and_logstash_forwarder_send_version_1_in_one_envelope(step: int | None) -> None:
    receiver = Receiver().feed(
        w(2, b"1") + c(ds(1, 2), b"1") + w(2, b"1") + c(ds(3, 4), b"1"), step
    )
    assert (receiver.stored, receiver.acks) == ([1, 2, 3, 4], [2, 4])


@steps
def test_jls_may_send_json_in_version_1(step: int | None) -> None:
    assert Receiver().feed(w(2, b"1") + c(js(1, 2, b"1"), b"1"), step).acks == [2]


@steps
def test_the_node_client_announces_once_and_streams_for_ever(step: int | None) -> None:
    receiver = Receiver().feed(w(4, b"1") + ds(1, 10), step)
    assert (receiver.stored, receiver.acks) == (list(range(1, 11)), [4, 8])
    assert receiver.quiet().acks == [4, 8, 10]
    assert receiver.quiet().acks == [4, 8, 10]  # never the same number twice
    assert receiver.feed(ds(11, 13)).acks == [4, 8, 10, 12]


@steps
def test_stashward_announces_2_32_minus_1_from_0_and_memory_is_not_sized_by_it(
    step: int | None,
) -> None:
    receiver = Receiver().feed(w(2**32 - 1, b"1") + ds(0, 9), step)
    assert (receiver.stored, receiver.acks) == (list(range(10)), [])
    assert receiver.quiet().acks == [9]
    assert receiver.feed(ds(10, 10)).quiet().acks == [9, 10]


@steps
def test_the_npm_client_sends_one_event_a_window(step: int | None) -> None:
    assert Receiver().feed((w(1) + js(1, 1)) * 3, step).acks == [1, 1, 1]


@steps
def test_a_short_window_ends_where_the_next_is_announced(step: int | None) -> None:
    receiver = Receiver().feed(w(5) + c(js(1, 2)) + w(3) + c(js(1, 3)), step)
    assert (receiver.stored, receiver.acks) == ([1, 2, 1, 2, 3], [2, 3])


@steps
def test_surplus_events_are_the_head_of_the_next_window_and_end_with_it(step: int | None) -> None:
    receiver = Receiver().feed(w(3) + c(js(1, 5)) + w(2) + c(js(1, 2)), step)
    assert (receiver.stored, receiver.acks) == ([1, 2, 3, 4, 5, 1, 2], [3, 5, 2])


@steps
def test_a_window_announced_twice_counts_once(step: int | None) -> None:
    assert Receiver().feed(w(3) + w(2) + js(1, 2), step).acks == [2]


@steps
def test_events_without_a_window_are_acknowledged_when_the_writer_is_quiet(
    step: int | None,
) -> None:
    for stream in (js(1, 3), c(js(1, 3))):
        receiver = Receiver().feed(stream, step)
        assert (receiver.stored, receiver.acks) == ([1, 2, 3], [])
        assert receiver.quiet().acks == [3]


@steps
def test_several_envelopes_and_bare_frames_make_one_window(step: int | None) -> None:
    receiver = Receiver().feed(w(6) + c(js(1, 2)) + c(js(3, 4)) + js(5, 6), step)
    assert (receiver.stored, receiver.acks) == ([1, 2, 3, 4, 5, 6], [6])


@steps
def test_equal_numbers_in_a_window_are_acknowledged_once(step: int | None) -> None:
    assert Receiver().feed(w(3) + js(1, 1) * 3, step).acks == [1]


@steps
def test_numbers_may_roll_over_within_a_window(step: int | None) -> None:
    assert Receiver().feed(w(3) + c(js(2**32 - 2, 2**32 - 1) + js(0, 0)), step).acks == [0]


def test_half_a_window_from_an_envelope_is_not_acknowledged_on_silence() -> None:
    """Logstash-forwarder and jls take any answer for the whole window's."""
    assert Receiver().feed(w(4, b"1") + c(ds(1, 2), b"1")).quiet().acks == []


def test_half_a_window_of_bare_frames_is_acknowledged_on_silence_and_goes_on() -> None:
    receiver = Receiver().feed(w(4) + js(1, 2)).quiet()
    assert receiver.feed(js(3, 4)).acks == [2, 4]


def test_events_are_given_at_once_and_the_acknowledgement_with_the_last() -> None:
    windows = WindowReader()
    (first,) = windows.group_frames([WindowFrame(3), JsonRun.of(1, [b"a", b"b"])])
    (second,) = windows.group_frames([JsonRun.of(3, [b"c"])])
    assert (first.count, first.ack, second.count, second.ack) == (2, None, 1, 3)


def test_a_run_longer_than_its_window_is_split_there() -> None:
    parts = WindowReader().group_frames(
        [WindowFrame(2), JsonRun.of(1, [b"a", b"b", b"c", b"d", b"e"])]
    )
    assert [(part.count, part.ack) for part in parts] == [(2, 2), (2, 4), (1, None)]
    assert [
        event.payloads for part in parts for event in part.events if isinstance(event, JsonRun)
    ] == [
        [b"a", b"b"],
        [b"c", b"d"],
        [b"e"],
    ]


def test_a_window_is_open_from_its_announcement_to_its_last_event() -> None:
    windows = WindowReader()
    seen = [windows.open]
    for frames in (
        [WindowFrame(2)],
        [JsonRun.of(1, [b"a"])],
        [JsonRun.of(2, [b"b"])],
        [JsonRun.of(3, [b"c"])],
    ):
        windows.group_frames(frames)
        seen.append(windows.open)
    assert seen == [False, True, True, False, True]
    windows.end_on_idle()
    assert not windows.open


def test_a_quiet_streaming_writer_is_not_waiting() -> None:
    windows = WindowReader()
    windows.group_frames([WindowFrame(1000), JsonRun.of(1, [b"a"])])
    windows.end_on_idle()
    assert not windows.open


def test_only_version_2_has_keepalives() -> None:
    assert (keepalive(b"2"), keepalive(b"1"), keepalive(b"")) == (b"2A\0\0\0\0", None, None)


def test_answers_carry_the_connections_version() -> None:
    receiver = Receiver().feed(w(1, b"1") + ds(1, 1))
    assert AckFrame(receiver.acks[0]).encode(receiver.frames.version) == b"1A\0\0\0\1"


@pytest.mark.parametrize(
    "frame", [SourceFrame(1, ORIGIN, b""), RunFrame(1, 0, 0, 1, 0, 0, 0, 1), AckFrame(1)]
)
def test_frames_of_other_dialects_are_the_callers_mistake(
    frame: SourceFrame | RunFrame | AckFrame,
) -> None:
    with pytest.raises(TypeError):
        WindowReader().group_frames([frame])


@given(
    st.lists(st.one_of(st.integers(0, 6).map(WindowFrame), st.integers(1, 5)), max_size=20),
    st.integers(1, 60),
)
def test_no_event_is_dropped_or_moved_and_every_one_is_acknowledged_at_last(
    script: list[WindowFrame | int], step: int
) -> None:
    """For any announced windows.

    An integer is a number of bare events, which are numbered on over the connection.
    """
    stream, sent = b"", 0
    for item in script:
        if isinstance(item, WindowFrame):
            stream += item.encode()
        else:
            stream += js(sent + 1, sent + item)
            sent += item
    receiver = Receiver()
    if stream:
        receiver.feed(stream, step)
    receiver.quiet()
    assert receiver.stored == list(range(1, sent + 1))
    acks = [ack for ack in receiver.acks if ack]
    assert acks == sorted(set(acks))
    assert acks[-1:] == ([sent] if sent else [])


def test_json_frames_of_one_event_count_as_one() -> None:
    (part,) = WindowReader().group_frames(
        reader().receive_data(WindowFrame(1).encode() + JsonFrame(9, b"{}").encode())
    )
    assert (part.count, part.ack) == (1, 9)
