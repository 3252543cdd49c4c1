"""`logdrive.wire.iggy.requests_codec` and `replies_codec`: any value, any garbage."""

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.commands import COMMANDS, REGISTER, Command
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import (
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from logdrive.wire.iggy.options import OptionScope
from logdrive.wire.iggy.payloads.tables import LISTS, REPLIES, REQUESTS
from logdrive.wire.iggy.replies import (
    ClientDetails,
    ClusterMetadata,
    ClusterNode,
    GroupAssignment,
    IggyReply,
    OptionDescription,
    Polled,
    SendConfirmation,
    TopicInfo,
)
from logdrive.wire.iggy.replies_codec import decode_reply, encode_reply, reply_parts
from logdrive.wire.iggy.requests import IggyRequestFor
from logdrive.wire.iggy.requests_codec import decode_request, encode_request, request_parts
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.exchanges import Exchange, exchanges
from tests.logdrive.wire.iggy.samples import any_reply, any_request

REVISIONS = list(Revision)
ANSWERED = [one for one in exchanges() if one.answered]


each_command = pytest.mark.parametrize(
    "command", COMMANDS, ids=lambda command: command.request.__name__
)


def revisions_of(command: Command) -> list[Revision]:
    """Return the revisions in which this codec has the command's payloads."""
    return [
        revision
        for revision in Revision
        if command.known_in(revision)
        and not (revision is Revision.R3 and command.operation == REGISTER)
    ]


def test_every_command_has_a_layout_and_every_list_is_a_reply() -> None:
    assert {command.request for command in COMMANDS} == set(REQUESTS)
    assert LISTS <= set(REPLIES) <= set(REQUESTS)
    assert len({command.code for command in COMMANDS}) == len(COMMANDS)


@each_command
@settings(max_examples=40)
@given(data=st.data())
def test_a_request_is_read_as_it_was_written(command: Command, data: st.DataObject) -> None:
    revision = data.draw(st.sampled_from(revisions_of(command)))
    request = data.draw(any_request(revision, command.request))
    code, payload = encode_request(revision, request)
    assert code == command.code
    assert decode_request(revision, code, payload) == request


@each_command
@settings(max_examples=40)
@given(data=st.data())
def test_a_reply_is_read_as_it_was_written(command: Command, data: st.DataObject) -> None:
    revision = data.draw(st.sampled_from(revisions_of(command)))
    request = data.draw(any_request(revision, command.request))
    assert isinstance(request, IggyRequestFor)
    reply = data.draw(any_reply(revision, command.request))
    payload = encode_reply(revision, request, reply)
    # clients take one byte for no payload
    assert len(payload) != 1 or command.request is requests.GetSnapshot
    assert decode_reply(revision, request, payload) == reply


@settings(max_examples=1000)
@given(st.sampled_from(Revision), st.sampled_from(COMMANDS), st.binary(max_size=80))
def test_garbage_is_refused_or_read_as_what_can_be_written(
    revision: Revision, command: Command, garbage: bytes
) -> None:
    with contextlib.suppress(IggyError):
        request = decode_request(revision, command.code, garbage)
        assert decode_request(revision, *encode_request(revision, request)) == request


@settings(max_examples=1000)
@given(st.sampled_from(ANSWERED), st.binary(max_size=120))
def test_a_garbled_reply_is_refused_or_read(exchange: Exchange, garbage: bytes) -> None:
    request = decode_request(exchange.revision, exchange.code, exchange.request)
    assert isinstance(request, IggyRequestFor)
    with contextlib.suppress(IggyError):
        decode_reply(exchange.revision, request, garbage)


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (requests.GetTopics(1), (TopicInfo(0, 0, 0, 0, 0, ""),)),
        (requests.GetClusterMetadata(), ClusterMetadata("", (ClusterNode("", "", 0),))),
        (requests.DescribeOptions(OptionScope.TOPIC), (OptionDescription("", 0, b"", ""),)),
        (
            requests.SendMessages(1, 1, ToPartition(0), b"", 0),
            (SendConfirmation(0, 0, 0, 0),),
        ),
        (requests.SyncGroup(1, 1, 1), GroupAssignment(1, (0,))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_smallest_item_of_a_counted_list_is_read(
    request_: IggyRequestFor[object], reply: IggyReply
) -> None:
    payload = encode_reply(Revision.R3, request_, reply)
    assert decode_reply(Revision.R3, request_, payload) == reply


@settings(max_examples=500)
@given(st.sampled_from(ANSWERED), st.data())
def test_a_damaged_recorded_request_is_refused_or_read(
    exchange: Exchange, data: st.DataObject
) -> None:
    payload = bytearray(exchange.request)
    if payload:
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    cut = data.draw(st.integers(0, len(payload)))
    for damaged in (bytes(payload), exchange.request[:cut], exchange.request + b"\0"):
        try:
            request = decode_request(exchange.revision, exchange.code, damaged)
        except IggyError:
            continue
        assert encode_request(exchange.revision, request)[0] == exchange.code


@settings(max_examples=500)
@given(st.sampled_from(ANSWERED), st.data())
def test_a_damaged_recorded_reply_is_refused_or_read(
    exchange: Exchange, data: st.DataObject
) -> None:
    request = decode_request(exchange.revision, exchange.code, exchange.request)
    assert isinstance(request, IggyRequestFor)
    payload = bytearray(exchange.reply or b"")
    if payload:
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(IggyError):
        decode_reply(exchange.revision, request, bytes(payload))


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_partition_is_counted_from_0_here_and_as_the_revision_does_on_the_wire(
    revision: Revision,
) -> None:
    _, payload = encode_request(revision, requests.SendMessages(1, 1, ToPartition(4), b"batch", 1))
    number = 5 if revision <= Revision.R2A else 4
    assert b"\2\4" + number.to_bytes(4, "little") in payload


def test_the_number_0_of_a_revision_that_counts_from_1_is_no_partition() -> None:
    payload = bytes.fromhex("010401000000 010401000000 0204 00000000")
    request = decode_request(Revision.R1, 101, payload)
    assert request == requests.SendMessages(1, 1, ToPartition(-1), b"")


@pytest.mark.parametrize("revision", REVISIONS[2:])
def test_nothing_found_is_an_empty_reply_from_r1_on(revision: Revision) -> None:
    asked = requests.GetStream("logs")
    assert encode_reply(revision, asked, None) == b""
    assert decode_reply(revision, asked, b"") is None


def test_a_command_that_a_revision_does_not_have_is_refused_on_both_sides() -> None:
    group = requests.SyncGroup("logs", "app", "g1")
    code, payload = encode_request(Revision.R3, group)
    with pytest.raises(IggyError) as caught:
        decode_request(Revision.R2C, code, payload)
    assert caught.value.reason is Reason.INVALID_COMMAND
    with pytest.raises(ValueError, match="R2C has no SyncGroup"):
        encode_request(Revision.R2C, group)
    with pytest.raises(IggyError):
        decode_request(Revision.R3, 9999, b"")


def test_a_login_of_r3_is_no_command() -> None:
    login = requests.IggyLogin("iggy", "iggy")
    with pytest.raises(ValueError, match="operation 1"):
        encode_request(Revision.R3, login)
    with pytest.raises(IggyError):
        decode_request(Revision.R3, 38, encode_request(Revision.R0B, login)[1])


def test_a_group_of_the_first_revision_has_no_name() -> None:
    with pytest.raises(ValueError, match="by number only"):
        encode_request(Revision.R0, requests.JoinGroup(1, 1, "g1"))
    consumer = Consumer(ConsumerKind.CONSUMER, "c1")
    with pytest.raises(ValueError, match="by number only"):
        encode_request(Revision.R0, requests.GetConsumerOffset(consumer, 1, 1, 0))
    with pytest.raises(ValueError, match="has a name"):
        encode_request(Revision.R1, requests.CreateGroup(1, 1, None))


def test_the_first_revisions_want_an_id_of_the_client() -> None:
    with pytest.raises(ValueError, match="an id"):
        encode_request(Revision.R0, requests.IggyCreateStream("logs"))
    payload = encode_request(Revision.R1, requests.IggyCreateStream("logs"))[1]
    for revision, reason in ((Revision.R0, Reason.INVALID_STREAM_ID), (Revision.R0B, None)):
        with pytest.raises(IggyError) as caught:
            decode_request(revision, 202, payload)
        assert caught.value.reason is (reason or Reason.INVALID_STREAM_ID)


def test_a_batch_is_neither_copied_when_it_is_read_nor_when_it_is_written() -> None:
    batch = bytes(100_000)
    request = requests.SendMessages("logs", "app", ToPartition(0), batch, 3)
    for revision in REVISIONS:
        _, parts = request_parts(revision, request)
        assert any(part is batch for part in parts)
        payload = b"".join(parts)
        read = decode_request(revision, 101, payload)
        assert isinstance(read, requests.SendMessages)
        assert isinstance(read.batch, memoryview)
        assert read.batch.obj is payload
        assert read.batch == batch


def test_polled_batches_may_be_in_parts() -> None:
    asked = requests.PollMessages(
        Consumer(ConsumerKind.CONSUMER, 1),
        1,
        1,
        0,
        PollingStrategy(PollingKind.NEXT),
        10,
        auto_commit=False,
    )
    parts = (b"a" * 5, memoryview(b"b" * 7))
    polled = Polled(2, 9, 3, parts)
    written = reply_parts(Revision.R2C, asked, polled)
    assert written[-2:] == list(parts)
    got = decode_reply(Revision.R2C, asked, b"".join(written))
    assert got == replace(polled, batches=b"aaaaabbbbbbb")


def test_a_list_that_announces_more_than_is_there_takes_no_memory() -> None:
    asked = requests.GetTopics("logs")
    with pytest.raises(IggyError, match="a list of 4294967295 items"):
        decode_reply(Revision.R3, asked, b"\xff\xff\xff\xff" + bytes(100))


def test_surplus_bytes_are_refused_in_a_request_and_ignored_in_a_reply() -> None:
    with pytest.raises(IggyError, match="2 bytes too many"):
        decode_request(Revision.R2C, 200, bytes.fromhex("010401000000 0000"))
    asked = requests.SyncGroup(1, 1, 1)
    assignment = GroupAssignment(3, (0, 1))
    payload = encode_reply(Revision.R3, asked, assignment)
    assert decode_reply(Revision.R3, asked, payload + b"more") == assignment


def test_a_reply_that_must_not_be_empty_is_refused_so() -> None:
    with pytest.raises(IggyError, match="is empty"):
        decode_reply(Revision.R2C, requests.GetMe(), b"")
    empty: IggyRequestFor[ClientDetails | None] = requests.GetClient(1)
    assert decode_reply(Revision.R2C, empty, b"") is None
