"""Sends become events as they should, and what servers refuse is refused, with their reasons."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.kernel.iggy_forms import add_key_kinds
from logdrive.model.framing import split_events
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import (
    MESSAGES,
    PAYLOAD_BYTES,
    R0_SEND_BYTES,
    USER_HEADERS_BYTES,
)
from logdrive.wire.iggy.messages.batches import SentBatch, frame_sent
from logdrive.wire.iggy.messages.envelope import StoredMessage, decode_message, encode_event
from logdrive.wire.iggy.messages.headers import encode_headers, header
from logdrive.wire.iggy.messages.sending import encode_sent, encode_sent_events
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.messages.samples import (
    EXECUTED,
    SOURCE,
    RecordedSend,
    batches,
    events_of,
    recorded_sends,
)

SENDS = list(recorded_sends())
HEADED = [Revision.R2A, Revision.R2C]


def counted(revision: Revision, count: int) -> int | None:
    return None if revision < Revision.R2A else count


def refused(revision: Revision, batch: bytes, count: int = 1) -> Reason:
    with pytest.raises(IggyError) as caught:
        frame_sent(revision, batch, counted(revision, count))
    return caught.value.reason


@pytest.mark.parametrize("send", [one for one in SENDS if one.taken], ids=lambda one: one.label)
def test_a_recorded_send_is_framed_and_sent_again_as_it_was(send: RecordedSend) -> None:
    batch = frame_sent(send.revision, send.request.batch, send.request.count)
    assert batch.count == len(list(split_events(batch.events)))
    again, count = encode_sent_events(send.revision, batch.events)
    assert count == batch.count
    sent = bytearray(send.request.batch)
    if Revision.R2A <= send.revision < Revision.R3:
        # the time of a message without headers is not kept
        at, head = 16 * count, 64 if send.revision is Revision.R2C else 56
        for payload in split_events(batch.events):
            if decode_message(payload).payload == payload:
                sent[at + 40 : at + 48] = bytes(8)
            at += head + sum(struct.unpack_from("<II", sent, at + 48))
    assert again.hex() == sent.hex()


def test_sends_of_each_executed_revision_were_recorded() -> None:
    assert {one.revision for one in SENDS if one.taken} >= set(EXECUTED)


@given(st.sampled_from(EXECUTED), batches)
def test_what_is_sent_is_what_is_stored(revision: Revision, sent: list[StoredMessage]) -> None:
    encoded = encode_sent(revision, sent)
    batch = frame_sent(revision, encoded, counted(revision, len(sent)))
    kept = [message if revision >= Revision.R2A else message._replace(origin=0) for message in sent]
    assert batch.events == events_of(*kept)
    assert batch.count == len(sent)
    assert batch.longest == max(len(payload) for payload in split_events(batch.events))
    ids = [message.id for message in sent]
    assert batch.ids == (ids if any(ids) else None)
    view = frame_sent(revision, memoryview(encoded), counted(revision, len(sent)))
    assert view == batch


@given(batches, st.sets(st.integers(0, 6)))
def test_selected_messages_keep_their_order(sent: list[StoredMessage], keep: set[int]) -> None:
    batch = SentBatch(events_of(*sent), len(sent), 999, any(one.id for one in sent))
    left = [message for number, message in enumerate(sent) if number in keep]
    chosen = batch.select(keep)
    assert chosen.events == events_of(*left)
    assert chosen.count == len(left)
    assert chosen.longest == max(map(len, split_events(chosen.events)), default=0)


@given(batches, st.integers(0, 700))
def test_a_batch_is_split_between_messages(sent: list[StoredMessage], most: int) -> None:
    batch = SentBatch(events_of(*sent), len(sent), 999, False)
    pieces = list(batch.split(most))
    assert b"".join(piece.events for piece in pieces) == batch.events
    for piece in pieces:
        assert piece.count == len(list(split_events(piece.events))) > 0
        assert len(piece.events) <= most or piece.count == 1


@pytest.mark.parametrize("chosen", [0, 7], ids=["plain", "with ids"])
def test_a_batch_of_many_short_messages_is_split_at_the_limit(chosen: int) -> None:
    event = encode_event(StoredMessage(b"x", id=chosen))
    batch = SentBatch(event * 1000, 1000, 1, bool(chosen))
    sizes = [len(piece.events) for piece in batch.split(10 * len(event) + 1)]
    assert sizes == [10 * len(event)] * 100


@pytest.mark.parametrize("revision", EXECUTED)
def test_more_messages_than_a_send_may_have_are_refused(
    revision: Revision, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logdrive.wire.iggy.messages.batches.MESSAGES", 2)
    two, three = (encode_sent(revision, [StoredMessage(b"x")] * count) for count in (2, 3))
    assert frame_sent(revision, two, counted(revision, 2)).count == 2
    assert refused(revision, three, 3) is Reason.TOO_MANY_MESSAGES


def test_a_count_that_is_too_high_is_refused_before_the_messages_are_looked_at() -> None:
    assert refused(Revision.R2C, b"", MESSAGES + 1) is Reason.TOO_MANY_MESSAGES


@pytest.mark.parametrize("revision", EXECUTED)
def test_no_messages_are_refused(revision: Revision) -> None:
    assert refused(revision, b"", 0) in {
        Reason.INVALID_MESSAGES_COUNT,
        Reason.INVALID_MESSAGES_SIZE,
    }
    if revision < Revision.R3:
        assert refused(revision, b"", 0) is Reason.INVALID_MESSAGES_COUNT


@pytest.mark.parametrize("revision", EXECUTED)
def test_an_empty_payload_is_refused_up_to_r1(revision: Revision) -> None:
    batch = encode_sent(revision, [StoredMessage(b"")])
    if revision >= Revision.R2A:
        assert frame_sent(revision, batch, 1).events == encode_event(StoredMessage(b""))
    elif revision is Revision.R1:
        assert refused(revision, batch) is Reason.INVALID_COMMAND
    else:
        assert refused(revision, batch) is Reason.EMPTY_PAYLOAD


@pytest.mark.parametrize("revision", EXECUTED)
def test_a_payload_may_be_as_long_as_the_limit_and_no_longer(revision: Revision) -> None:
    most = R0_SEND_BYTES if revision < Revision.R2A else PAYLOAD_BYTES
    assert frame_sent(revision, encode_sent(revision, [StoredMessage(bytes(most))]), 1).count == 1
    batch = encode_sent(revision, [StoredMessage(bytes(most + 1))])
    assert refused(revision, batch) is Reason.PAYLOAD_TOO_BIG


def test_up_to_r1_all_payloads_of_a_send_count() -> None:
    half = StoredMessage(bytes(R0_SEND_BYTES // 2))
    assert frame_sent(Revision.R1, encode_sent(Revision.R1, [half, half]), None).count == 2
    batch = encode_sent(Revision.R1, [half, half, StoredMessage(b"x")])
    assert refused(Revision.R1, batch) is Reason.PAYLOAD_TOO_BIG


@pytest.mark.parametrize("revision", EXECUTED)
def test_user_headers_have_a_limit(revision: Revision) -> None:
    entry = encode_headers([header("k" * 7, b"v" * 255)])
    headers = entry * (USER_HEADERS_BYTES // len(entry))
    batch = encode_sent(revision, [StoredMessage(b"x", headers)])
    assert frame_sent(revision, batch, counted(revision, 1)).count == 1
    batch = encode_sent(revision, [StoredMessage(b"x", headers + entry * 4)])
    assert refused(revision, batch) is Reason.USER_HEADERS_TOO_BIG


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        (b"\x02\x00\x00\x00\x00", Reason.INVALID_HEADER_KEY),
        (b"\x02\x01\x00\x00\x00\xff\x01\x01\x00\x00\x00v", Reason.INVALID_HEADER_KEY),
        (b"\x02\x09\x00\x00\x00k", Reason.INVALID_HEADER_KEY),
        (b"\x02\x01\x00\x00\x00k", Reason.INVALID_HEADER_VALUE),
        (b"\x02\x01\x00\x00\x00k\x01\x00\x00\x00\x00", Reason.INVALID_HEADER_VALUE),
        (b"\x02\x01\x00\x00\x00k\x01\x02\x00\x00\x00v", Reason.INVALID_HEADER_VALUE),
        (b"\x02\x01\x00\x00\x00k\x10\x01\x00\x00\x00v", Reason.INVALID_HEADER_KIND),
        (b"\x00\x01\x00\x00\x00k\x01\x01\x00\x00\x00v", Reason.INVALID_HEADER_KIND),
    ],
)
def test_user_headers_that_cannot_be_read_are_refused(headers: bytes, reason: Reason) -> None:
    message = struct.pack("<Q16sQQQIIQ", 0, bytes(16), 0, 0, 0, len(headers), 1, 0) + b"x" + headers
    batch = struct.pack("<IIQ", 0, len(message), 0) + message
    assert refused(Revision.R2C, batch) is reason
    if headers[0] == 2:
        classic = bytes(16) + struct.pack("<I", len(headers) - 1) + headers[1:]
        assert refused(Revision.R0, classic + b"\x01\x00\x00\x00x") is reason


@pytest.mark.parametrize("revision", [Revision.R0, Revision.R1])
def test_a_classic_message_that_is_cut_off_cannot_be_read(revision: Revision) -> None:
    batch = encode_sent(revision, [StoredMessage(b"payload", SOURCE, 7)])
    for end in range(1, len(batch)):
        assert refused(revision, batch[:end]) is Reason.INVALID_COMMAND


@pytest.mark.parametrize("revision", HEADED)
def test_an_index_must_fit_the_messages(revision: Revision) -> None:
    batch = encode_sent(revision, [StoredMessage(b"one"), StoredMessage(b"three")])
    assert frame_sent(revision, batch, 2).count == 2
    assert refused(revision, batch, 3) is Reason.MISSING_INDEX  # too many
    assert refused(revision, batch[:40], 9) is Reason.MISSING_INDEX
    # too few: the index of the second is taken for the first message
    assert refused(revision, batch, 1) is Reason.MISSING_INDEX
    assert refused(revision, batch + b"x", 2) is Reason.INVALID_MESSAGES_SIZE
    assert refused(revision, batch[:-1], 2) is Reason.MISSING_INDEX
    assert refused(revision, b"\x01" + batch[1:], 2) is Reason.NON_ZERO_OFFSET
    assert refused(revision, batch[:8] + b"\x01" + batch[9:], 2) is Reason.NON_ZERO_TIMESTAMP
    assert refused(revision, batch[:4] + b"\x01" + batch[5:], 2) is Reason.MISSING_INDEX


def test_each_byte_of_a_record_counts() -> None:
    batch = encode_sent(Revision.R3, [StoredMessage(b"one", SOURCE, 7), StoredMessage(b"two")])
    assert frame_sent(Revision.R3, batch, 2).count == 2
    expected = {
        0: Reason.BATCH_CHECKSUM_MISMATCH,  # the partition, which servers overwrite
        8: Reason.NON_ZERO_OFFSET,
        16: Reason.NON_ZERO_TIMESTAMP,
        24: Reason.BATCH_CHECKSUM_MISMATCH,  # the origin
        32: Reason.INVALID_MESSAGES_SIZE,
        40: Reason.BATCH_CHECKSUM_MISMATCH,
        48: Reason.INVALID_MESSAGES_COUNT,
        52: Reason.INVALID_RESERVED_FIELD,
        255: Reason.INVALID_RESERVED_FIELD,
        256: Reason.CHECKSUM_MISMATCH,
        264: Reason.CHECKSUM_MISMATCH,  # the id
        280: Reason.INVALID_OFFSET,
        284: Reason.CHECKSUM_MISMATCH,
        296: Reason.INVALID_RESERVED_FIELD,
        304: Reason.CHECKSUM_MISMATCH,  # the payload
    }
    for at, reason in expected.items():
        damaged = batch[:at] + bytes((batch[at] ^ 1,)) + batch[at + 1 :]
        assert refused(Revision.R3, damaged, 2) is reason, at
    for at in range(len(batch)):
        damaged = batch[:at] + bytes((batch[at] ^ 0x40,)) + batch[at + 1 :]
        refused(Revision.R3, damaged, 2)
    assert refused(Revision.R3, batch, 1) is Reason.INVALID_MESSAGES_COUNT
    assert refused(Revision.R3, batch[:-1], 2) is Reason.INVALID_MESSAGES_SIZE
    assert refused(Revision.R3, b"", 1) is Reason.INVALID_MESSAGES_SIZE


@given(st.sampled_from(EXECUTED), batches, st.data())
def test_damage_is_an_error_or_other_messages(
    revision: Revision, sent: list[StoredMessage], data: st.DataObject
) -> None:
    batch = bytearray(encode_sent(revision, sent))
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(0, len(batch) - 1))] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(batch)) | st.just(len(batch)))
    count = data.draw(st.just(len(sent)) | st.integers(0, 2**32 - 1))
    try:
        framed = frame_sent(revision, bytes(batch[:end]), counted(revision, count))
    except IggyError:
        return
    # what a message announces is what is there: nothing is made larger by more than an envelope
    assert len(framed.events) <= 2 * end + 40 * framed.count
    assert framed.count == len(list(split_events(framed.events)))


@given(st.sampled_from(EXECUTED), st.binary(max_size=300), st.integers(0, 4))
def test_any_bytes_are_an_error_or_messages(revision: Revision, data: bytes, count: int) -> None:
    try:
        framed = frame_sent(revision, data, counted(revision, count))
    except IggyError:
        return
    assert framed.count == len(list(split_events(framed.events))) > 0


def test_headers_of_old_revisions_are_stored_with_kinds_of_keys() -> None:
    untyped = b"\x02\x00\x00\x00k1\x06\x04\x00\x00\x00\xfe\xff\xff\xff"
    batch = bytes(16) + struct.pack("<I", len(untyped)) + untyped + b"\x01\x00\x00\x00x"
    stored = decode_message(next(split_events(frame_sent(Revision.R0, batch, None).events)))
    assert stored == StoredMessage(b"x", b"\x02" + untyped)
    assert add_key_kinds(untyped) == b"\x02" + untyped
