"""Polls are read as clients read them; what is damaged is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.framing import frame_events, split_events
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.messages.decode import PolledRun, decode_polled, polled_runs
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.messages.polled import StoredEvents, encode_polled
from logdrive.wire.iggy.replies import Polled
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.messages.samples import (
    EXECUTED,
    SOURCE,
    batches,
    events_of,
    recorded_polls,
)

POLLS = list(recorded_polls())


def polled(revision: Revision, events: bytes, offset: int = 0) -> bytes:
    """Return the messages that *events* are in a poll."""
    return b"".join(
        encode_polled(
            revision,
            [StoredEvents(events, offset, 1_700_000_000_000_999)],
            partition=0,
            id_seed=b"seedseed",
            most=100,
            limit=2**30,
            foreign=lambda payload: None,
        ).batches
    )


@pytest.mark.parametrize(("label", "revision", "reply"), POLLS, ids=[one[0] for one in POLLS])
def test_a_recorded_poll_is_read(label: str, revision: Revision, reply: Polled) -> None:
    assert not isinstance(reply.batches, tuple)
    found = list(decode_polled(revision, reply.batches))
    assert len(found) == reply.count
    runs = [
        (run.offset + number, payload)
        for run in polled_runs(revision, reply.batches)
        for number, payload in enumerate(split_events(run.events))
    ]
    assert runs == [(message.offset, message.payload) for message in found]
    if "server" in label:
        assert all(message.id and message.timestamp for message in found)


def test_polls_of_each_executed_revision_were_recorded() -> None:
    assert {revision for _, revision, reply in POLLS if reply.count} >= set(EXECUTED)


def test_a_recorded_poll_has_the_headers_that_were_sent() -> None:
    entry = b"\x02\x02\x00\x00\x00k1\x06\x04\x00\x00\x00\xfe\xff\xff\xff"
    for label in ("server-r0-log", "client-apache-iggy-0.9.0-"):
        found = {
            message.headers
            for one, revision, reply in POLLS
            if one.startswith(label)
            for message in decode_polled(revision, b"".join([reply.batches]))  # type: ignore[list-item]
        }
        assert found >= {b"", entry}


@pytest.mark.parametrize("revision", EXECUTED)
def test_messages_behind_a_gap_are_a_run_of_their_own(revision: Revision) -> None:
    first, second = frame_events([b"one", b"two"]), frame_events([b"three"])
    data = polled(revision, first, 5) + polled(revision, second, 9)
    assert list(polled_runs(revision, data)) == [PolledRun(5, 2, first), PolledRun(9, 1, second)]
    assert [one.offset for one in decode_polled(revision, data)] == [5, 6, 9]


def covered(revision: Revision, at: int) -> bool:
    """Whether byte *at* of the first message, of 5 bytes and without headers, is in a checksum."""
    if revision <= Revision.R1:
        return 33 <= at < 37 or 45 <= at < 50  # the checksum itself, the payload
    return revision < Revision.R3 or at < 52 or at >= 256


@pytest.mark.parametrize("revision", EXECUTED)
def test_damage_that_a_checksum_covers_is_an_error(revision: Revision) -> None:
    whole = polled(revision, frame_events([b"hello"]))
    for at in range(len(whole)):
        damaged = whole[:at] + bytes((whole[at] ^ 0x10,)) + whole[at + 1 :]
        for reader in (decode_polled, polled_runs):
            if covered(revision, at):
                with pytest.raises(IggyError):
                    list(reader(revision, damaged))
    for end in range(1, len(whole)):
        with pytest.raises(IggyError):
            list(decode_polled(revision, whole[:end]))
        with pytest.raises(IggyError):
            list(polled_runs(revision, whole[:end]))


@pytest.mark.parametrize("revision", EXECUTED)
def test_what_stands_before_the_damage_is_returned(revision: Revision) -> None:
    first = polled(revision, frame_events([b"one", b"two"]))
    damaged = first + polled(revision, frame_events([b"three"]), 2)[:-1] + b"\0"
    runs = polled_runs(revision, damaged)
    assert next(runs).count == 2
    with pytest.raises(IggyError) as caught:
        next(runs)
    assert caught.value.reason is Reason.CHECKSUM_MISMATCH
    messages = decode_polled(revision, damaged)
    assert [next(messages).payload, next(messages).payload] == [b"one", b"two"]
    with pytest.raises(IggyError):
        next(messages)


@given(st.sampled_from(EXECUTED), batches, st.data())
def test_garbage_is_an_error_or_other_messages(
    revision: Revision, stored: list[StoredMessage], data: st.DataObject
) -> None:
    batch = bytearray(polled(revision, events_of(*stored)))
    for _ in range(data.draw(st.integers(0, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    batch += data.draw(st.binary(max_size=60))
    both: list[list[tuple[int, bytes]]] = []
    for reader in (decode_polled, polled_runs):
        found: list[tuple[int, bytes]] = []
        try:
            for one in reader(revision, bytes(batch)):
                if isinstance(one, PolledRun):
                    found += enumerate(split_events(one.events), one.offset)
                else:
                    found.append((one.offset, one.payload))
        except IggyError:
            pass
        both.append(found)
    # user headers that can't be read stop only who looks at them
    assert both[0] == both[1][: len(both[0])]


def test_user_headers_that_cannot_be_read_are_an_error() -> None:
    batch = polled(Revision.R1, events_of(StoredMessage(b"x", SOURCE)))
    damaged = batch[:41] + b"\0" + batch[42:]  # the length of a key
    assert next(polled_runs(Revision.R1, damaged)).count == 1
    with pytest.raises(IggyError) as caught:
        list(decode_polled(Revision.R1, damaged))
    assert caught.value.reason is Reason.INVALID_HEADER_KEY
