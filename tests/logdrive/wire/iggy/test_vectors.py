"""What Iggy's own clients and servers sent, both ways: tests/vectors/iggy."""

import pytest

from logdrive.wire.iggy.commands import COMMANDS
from logdrive.wire.iggy.errors import IggyError, Reason, error_of
from logdrive.wire.iggy.replies_codec import decode_reply, encode_reply
from logdrive.wire.iggy.requests import IggyRequestFor
from logdrive.wire.iggy.requests_codec import decode_request, encode_request
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.exchanges import Exchange, exchanges

ALL = list(exchanges())
MISTAKES = {
    "server-0.4.213-commands-102-cluster",
    "server-0.4.213-commands-103-delete-segments",
    *(f"server-r0-log-{number}-create-stream" for number in (4, 5, 6, 15)),
    "server-r0-log-2-unknown",
    "server-r0-log-3-login",
    "server-r0-log-7-stream",
    "server-r0-log-47-poll",
    "server-r0-log-48-send",
    "server-r0-log-84-update-stream",
}
"""Requests that scripts made wrong on purpose: they can't be read, and servers refused them."""
# R0 keeps a new name in another form than it was given
GIVEN = {b"\nTwo  Words": b"\x09two.words", b"\x03T x": b"\x03t.x", b"\x08My  Logs": b"\x07my.logs"}


def as_kept(exchange: Exchange) -> bytes:
    """Return the payload; with new names as R0 keeps them."""
    payload = exchange.request
    if exchange.revision is Revision.R0 and exchange.code in {202, 302}:
        for given, kept in GIVEN.items():
            payload = payload.replace(given, kept)
    return payload


@pytest.mark.parametrize(
    "exchange", [one for one in ALL if one.label in MISTAKES], ids=lambda one: one.label
)
def test_a_recorded_mistake_is_refused(exchange: Exchange) -> None:
    assert not exchange.answered
    with pytest.raises(IggyError):
        decode_request(exchange.revision, exchange.code, exchange.request)


@pytest.mark.parametrize(
    "exchange", [one for one in ALL if one.label not in MISTAKES], ids=lambda one: one.label
)
def test_a_recorded_request_is_read_and_written_as_it_was(exchange: Exchange) -> None:
    request = decode_request(exchange.revision, exchange.code, exchange.request)
    code, payload = encode_request(exchange.revision, request)
    assert code == exchange.code
    assert payload.hex() == as_kept(exchange).hex()


@pytest.mark.parametrize(
    "exchange", [one for one in ALL if one.answered], ids=lambda one: one.label
)
def test_a_recorded_reply_is_read_and_written_as_it_was(exchange: Exchange) -> None:
    request = decode_request(exchange.revision, exchange.code, exchange.request)
    assert isinstance(request, IggyRequestFor)
    assert exchange.reply is not None
    reply = decode_reply(exchange.revision, request, exchange.reply)
    assert encode_reply(exchange.revision, request, reply).hex() == exchange.reply.hex()


@pytest.mark.parametrize(
    "exchange", [one for one in ALL if one.reply == b"" and one.status], ids=lambda one: one.label
)
def test_a_recorded_status_has_a_reason_and_that_reason_its_status(exchange: Exchange) -> None:
    error = error_of(exchange.revision, exchange.status)
    assert error.reason is not Reason.ERROR
    assert error.code(exchange.revision) == exchange.status


@pytest.mark.parametrize("revision", [Revision.R0, Revision.R1])
def test_each_command_of_an_executed_revision_is_among_the_vectors(revision: Revision) -> None:
    seen = {one.code for one in ALL if one.revision is revision and one.answered}
    # a snapshot is a megabyte; R1's server has no cluster
    missing = {command.code for command in COMMANDS if command.known_in(revision)} - seen
    assert missing <= {11, 12}
