"""Stored events are polled as messages, within limits, and other faces' events with them."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.kernel.iggy_forms import drop_key_kinds
from logdrive.model.framing import frame_event, frame_events, split_events
from logdrive.wire.iggy.messages.decode import IggyMessage, decode_polled, polled_runs
from logdrive.wire.iggy.messages.envelope import StoredMessage, derived_id, encode_event
from logdrive.wire.iggy.messages.headers import encode_headers, header
from logdrive.wire.iggy.messages.polled import (
    EncodedPoll,
    Foreign,
    ForeignMessage,
    NotStoredError,
    StoredEvents,
    encode_polled,
)
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.messages.samples import (
    EXECUTED,
    SOURCE,
    batches,
    events_of,
    numeric_key,
)

SEED = b"\x01seed\0\0\0"
TIME = 1_700_000_000_000_999
AMPLE = 2**40


def none_foreign(payload: bytes) -> ForeignMessage | None:
    raise AssertionError(payload)


def poll(
    revision: Revision,
    *parts: StoredEvents,
    most: int = 1000,
    limit: int = AMPLE,
    foreign: Foreign = none_foreign,
) -> EncodedPoll:
    polled = encode_polled(
        revision, parts, partition=3, id_seed=SEED, most=most, limit=limit, foreign=foreign
    )
    assert len(polled.batches) <= max(1, polled.count)
    return polled


def read(revision: Revision, polled: EncodedPoll) -> list[IggyMessage]:
    found = list(decode_polled(revision, b"".join(polled.batches)))
    assert len(found) == polled.count
    return found


def as_polled(
    revision: Revision, offset: int, stored: StoredMessage, time_us: int = TIME
) -> IggyMessage:
    """Return *stored* as a client of *revision* gets it."""
    # the origin of a plain message is not kept
    enveloped = stored.headers or stored.id or stored.payload[:1] == b"\xff"
    origin = stored.origin if enveloped and stored.origin else time_us
    if revision < Revision.R2A:
        origin = 0
    chosen = stored.id or derived_id(SEED, offset)
    return IggyMessage(offset, chosen, time_us, origin, stored.headers, stored.payload)


@given(st.sampled_from(EXECUTED), batches, batches, st.integers(0, 2**64 - 20))
def test_what_is_stored_is_what_is_polled(
    revision: Revision, first: list[StoredMessage], second: list[StoredMessage], offset: int
) -> None:
    parts = (
        StoredEvents(events_of(*first), offset, TIME),
        StoredEvents(memoryview(events_of(*second)), offset + len(first), TIME + 5),
    )
    expected = [as_polled(revision, offset + n, one) for n, one in enumerate(first)]
    expected += [
        as_polled(revision, offset + len(first) + n, one, TIME + 5) for n, one in enumerate(second)
    ]
    polled = poll(revision, *parts)
    assert read(revision, polled) == expected
    runs = list(polled_runs(revision, b"".join(polled.batches)))
    found = [
        (run.offset + n, payload)
        for run in runs
        for n, payload in enumerate(split_events(run.events))
    ]
    assert found == [(one.offset, one.payload) for one in expected]
    assert [run.count for run in runs] == [len(list(split_events(run.events))) for run in runs]


@given(st.sampled_from(EXECUTED), batches, st.integers(0, 8), st.integers(0, 2000))
def test_a_poll_has_its_limits(
    revision: Revision, stored: list[StoredMessage], most: int, limit: int
) -> None:
    part = StoredEvents(events_of(*stored), 0, TIME)
    polled = poll(revision, part, most=most, limit=limit)
    found = read(revision, polled)
    assert found == read(revision, poll(revision, part))[: polled.count]
    assert polled.count <= most
    assert polled.count > 0 or most == 0
    assert sum(map(len, polled.batches)) <= limit or polled.count <= 1
    if polled.count < min(most, len(stored)):
        following = poll(revision, part, most=polled.count + 1)
        assert sum(map(len, following.batches)) > limit or revision is Revision.R3


@pytest.mark.parametrize("revision", EXECUTED)
def test_parts_are_read_only_as_far_as_needed(revision: Revision) -> None:
    def parts() -> Iterator[StoredEvents]:
        yield StoredEvents(frame_events([b"one", b"two"]), 0, TIME)
        yield StoredEvents(frame_events([b"three"]), 2, TIME)
        raise AssertionError

    arguments = {"partition": 0, "id_seed": SEED, "foreign": none_foreign}
    assert encode_polled(revision, parts(), most=2, limit=AMPLE, **arguments).count == 2  # type: ignore[arg-type]
    assert encode_polled(revision, parts(), most=3, limit=AMPLE, **arguments).count == 3  # type: ignore[arg-type]
    assert encode_polled(revision, parts(), most=9, limit=1, **arguments).count == 1  # type: ignore[arg-type]
    assert encode_polled(revision, iter(()), most=9, limit=1, **arguments) == EncodedPoll(0, ())  # type: ignore[arg-type]


@pytest.mark.parametrize("revision", EXECUTED)
def test_only_the_first_message_may_be_longer_than_the_limit(revision: Revision) -> None:
    part = StoredEvents(frame_events([b"x" * 5000, b"y", b"z"]), 0, TIME)
    assert [one.payload[:1] for one in read(revision, poll(revision, part, limit=50))] == [b"x"]
    part = StoredEvents(frame_events([b"y", b"x" * 5000, b"z"]), 0, TIME)
    assert [one.payload for one in read(revision, poll(revision, part, limit=1000))] == [b"y"]


@pytest.mark.parametrize("revision", EXECUTED)
def test_messages_of_other_faces_are_translated(revision: Revision) -> None:
    events = frame_events([b"plain", b"\xffS2 record", b"\xffunknown", b"\xff", b"last"])
    seen: list[bytes] = []

    def foreign(payload: bytes) -> ForeignMessage | None:
        seen.append(payload)
        return ForeignMessage(SOURCE, b"record") if payload.startswith(b"\xffS2") else None

    found = read(revision, poll(revision, StoredEvents(events, 7, TIME), foreign=foreign))
    assert [(one.offset, one.headers, one.payload) for one in found] == [
        (7, b"", b"plain"),
        (8, SOURCE, b"record"),
        (9, b"", b"\xffunknown"),
        (10, b"", b"\xff"),
        (11, b"", b"last"),
    ]
    assert [one.id for one in found] == [derived_id(SEED, offset) for offset in range(7, 12)]
    assert {one.timestamp for one in found} == {TIME}
    assert seen == [b"\xffS2 record", b"\xffunknown", b"\xff"]
    # nothing behind the last message polled is looked at
    seen.clear()
    poll(revision, StoredEvents(events, 7, TIME), foreign=foreign, most=2)
    assert seen == [b"\xffS2 record"]


def test_headers_are_polled_in_the_form_of_the_revision() -> None:
    headers = SOURCE + numeric_key(5)
    part = StoredEvents(encode_event(StoredMessage(b"x", headers)), 0, TIME)
    for revision in EXECUTED:
        (found,) = read(revision, poll(revision, part))
        # a key that is no text has no form before R2C
        assert found.headers == (headers if revision >= Revision.R2C else SOURCE)
    (classic,) = poll(Revision.R1, part).batches
    assert drop_key_kinds(SOURCE) in classic


def test_a_record_has_origins_within_an_hour_and_others_follow_in_another() -> None:
    origins = [10**15, 10**15 - 9, 10**15 + 2**32 - 10, 10**15 + 2**32, 5]
    stored = [StoredMessage(b"x", id=1, origin=origin) for origin in origins]
    polled = poll(Revision.R3, StoredEvents(events_of(*stored), 0, TIME))
    assert [one.origin for one in read(Revision.R3, polled)] == origins
    assert len(polled.batches) == 3
    assert int.from_bytes(polled.batches[0][24:32], "little") == 10**15 - 9


@pytest.mark.parametrize("revision", EXECUTED)
def test_what_is_no_event_is_an_error(revision: Revision) -> None:
    events = frame_event(b"one")
    with pytest.raises(NotStoredError):
        poll(revision, StoredEvents(events + b"\0\0\0\1" + bytes(9), 0, TIME))
    # what is not whole ends the poll
    parts = (StoredEvents(events + events[:-1], 0, TIME), StoredEvents(events, 2, TIME))
    assert poll(revision, *parts).count == 1


def test_ids_are_never_zero() -> None:
    with pytest.raises(ValueError, match="seed"):
        encode_polled(
            Revision.R1, [], partition=0, id_seed=bytes(8), most=1, limit=1, foreign=none_foreign
        )
    assert derived_id(SEED, 0) == int.from_bytes(SEED, "little")
    assert derived_id(SEED, 1) != derived_id(SEED, 0) != derived_id(b"\x02" + SEED[1:], 0)


def test_a_key_of_text_stays_the_same_through_all_revisions() -> None:
    headers = encode_headers([header("schlüssel", "wert"), header("n", 1.5)])
    part = StoredEvents(encode_event(StoredMessage(b"x", headers)), 0, TIME)
    assert {one.headers for r in EXECUTED for one in read(r, poll(r, part))} == {headers}
