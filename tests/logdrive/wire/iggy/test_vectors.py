"""What Iggy's own clients and servers sent, both ways: tests/vectors/iggy."""

import contextlib

import pytest

from logdrive.wire.iggy.commands import COMMANDS
from logdrive.wire.iggy.errors import IggyError, Reason, error_of
from logdrive.wire.iggy.replies_codec import decode_reply, encode_reply
from logdrive.wire.iggy.requests import IggyRequest, IggyRequestFor
from logdrive.wire.iggy.requests_codec import decode_request, encode_request
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.exchanges import Exchange, exchanges

ALL = list(exchanges())
# R0 keeps a new name in another form than it was given
GIVEN = {b"\nTwo  Words": b"\x09two.words", b"\x03T x": b"\x03t.x", b"\x08My  Logs": b"\x07my.logs"}


def as_kept(exchange: Exchange) -> bytes:
    """Return the payload; with new names as R0 keeps them."""
    payload = exchange.request
    if exchange.revision is Revision.R0 and exchange.code in {202, 302}:
        for given, kept in GIVEN.items():
            payload = payload.replace(given, kept)
    return payload


def read(exchange: Exchange) -> IggyRequest | None:
    """Return the request; None for one of the mistakes that a script made on purpose.

    Servers answered those with an error, too, or hung up.
    """
    if exchange.answered:
        return decode_request(exchange.revision, exchange.code, exchange.request)
    with contextlib.suppress(IggyError):
        return decode_request(exchange.revision, exchange.code, exchange.request)
    return None


@pytest.mark.parametrize("exchange", ALL, ids=lambda one: one.label)
def test_a_recorded_request_is_read_and_written_as_it_was(exchange: Exchange) -> None:
    request = read(exchange)
    if request is not None:
        code, payload = encode_request(exchange.revision, request)
        assert code == exchange.code
        assert payload.hex() == as_kept(exchange).hex()


@pytest.mark.parametrize(
    "exchange", [one for one in ALL if one.answered], ids=lambda one: one.label
)
def test_a_recorded_reply_is_read_and_written_as_it_was(exchange: Exchange) -> None:
    request = read(exchange)
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
