"""Acknowledgements complete windows: within the oldest window for plain peers, over the whole
connection in `logdrive/1`.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.errors import ProtocolError
from logdrive.wire.lumberjack.ack_tracker import AckTracker
from logdrive.wire.lumberjack.frames import VERSION_1, VERSION_2


def plain(*counts: int) -> AckTracker[int]:
    """Return the tracker of windows of these counts of events, with the tokens 0, 1, 2 …"""
    tracker = AckTracker[int]("window")
    for token, count in enumerate(counts):
        tracker.on_window_sent(token, count, count)
    return tracker


def running(*counts: int) -> AckTracker[int]:
    tracker, last = AckTracker[int]("connection"), 0
    for token, count in enumerate(counts):
        last += count
        tracker.on_window_sent(token, last, count)
    return tracker


@pytest.mark.parametrize(
    ("acks", "done"),
    [
        ([10], [[0]]),
        ([0, 0, 0, 10], [[], [], [], [0]]),
        ([5, 0, 10], [[], [], [0]]),
        ([5, 3, 10], [[], [], [0]]),
        ([10, 4, 10], [[0], [], [1]]),
    ],
)
def test_plain_acknowledgements_count_within_the_oldest_window(
    acks: list[int], done: list[list[int]]
) -> None:
    tracker = plain(10, 10)
    assert [tracker.on_ack(ack) for ack in acks] == done


@pytest.mark.parametrize("ack", [11, 2**32 - 1])
def test_more_than_the_oldest_window_has_is_fatal(ack: int) -> None:
    with pytest.raises(ProtocolError, match=f"{ack} where 10 are awaited") as error:
        plain(10, 20).on_ack(ack, offset=6)
    assert (error.value.offset, error.value.code) == (6, 1)


def test_an_acknowledgement_of_nothing_sent_is_fatal_but_a_keepalive_is_not() -> None:
    for tracker in (AckTracker[int]("window"), AckTracker[int]("connection")):
        assert tracker.on_ack(0) == []
        with pytest.raises(ProtocolError):
            tracker.on_ack(1)


@pytest.mark.parametrize(("own", "other"), [(VERSION_1, VERSION_2), (VERSION_2, VERSION_1)])
def test_an_acknowledgement_in_the_other_version_is_fatal(own: bytes, other: bytes) -> None:
    tracker = AckTracker[int]("window", own)
    tracker.on_window_sent(0, 10, 10)
    with pytest.raises(
        ProtocolError, match=f"in version {other.decode()} .* version {own.decode()}"
    ) as error:
        tracker.on_ack(10, version=other, offset=6)
    assert (error.value.offset, tracker.in_flight) == (6, [0])
    assert tracker.on_ack(10, version=own) == [0]


def test_keepalives_come_in_version_2_even_to_writers_of_version_1() -> None:
    """Logstash sends no others. No reader is known to do the opposite."""
    assert AckTracker[int]("window", VERSION_1).on_ack(0, version=VERSION_2) == []
    with pytest.raises(ProtocolError, match="version 1"):
        AckTracker[int]("window", VERSION_2).on_ack(0, version=VERSION_1)


def test_windows_in_flight_are_listed_oldest_first() -> None:
    tracker = plain(5, 6, 7)
    tracker.on_ack(5)
    assert (tracker.in_flight, len(tracker)) == ([1, 2], 2)


def test_over_a_connection_one_acknowledgement_may_complete_several_windows() -> None:
    tracker = running(3, 4, 5)
    assert [tracker.on_ack(ack) for ack in (0, 2, 3, 7 + 4, 12)] == [[], [], [0], [1], [2]]
    assert running(3, 4, 5).on_ack(12) == [0, 1, 2]


@pytest.mark.parametrize("acks", [[13], [5, 5], [5, 4]])
def test_over_a_connection_acknowledgements_only_grow_and_never_beyond_what_was_sent(
    acks: list[int],
) -> None:
    tracker = running(3, 4, 5)
    for ack in acks[:-1]:
        tracker.on_ack(ack)
    with pytest.raises(ProtocolError):
        tracker.on_ack(acks[-1], offset=6)


def test_windows_that_do_not_add_up_are_the_callers_mistake() -> None:
    for tracker, last, count in (
        (plain(), 0, 0),
        (plain(3), 6, 3),
        (running(3), 3, 3),
        (running(3), 7, 3),
    ):
        with pytest.raises(ValueError, match="a window of"):
            tracker.on_window_sent(9, last, count)


@given(st.lists(st.integers(1, 9), max_size=9), st.data())
def test_over_a_connection_every_window_completes_once_and_in_order(
    counts: list[int], data: st.DataObject
) -> None:
    tracker, done = running(*counts), list[int]()
    for ack in sorted(data.draw(st.sets(st.integers(1, sum(counts)))) if counts else []):
        done += tracker.on_ack(ack)
        assert sum(counts[: len(done)]) <= ack
    assert done == list(range(len(done)))
    assert tracker.in_flight == list(range(len(done), len(counts)))
