"""Requests from and to the payloads of every revision. See docs/protocols/iggy.md#commands."""

from logdrive.model.framing import Part
from logdrive.wire.iggy.commands import (
    COMMAND_BY_CODE,
    COMMAND_BY_REQUEST,
    REGISTER,
)
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.tables import REQUESTS
from logdrive.wire.iggy.requests import IggyRequest
from logdrive.wire.iggy.revision import Revision


def decode_request(revision: Revision, code: int, payload: Part) -> IggyRequest:
    """Return the request of the command *code*.

    Raises IggyError: INVALID_COMMAND for a code that the revision does not have, and for a payload
    that is not that of the command, to the last byte; another reason for a name, an id or an option
    that breaks a rule. The batch of a SendMessages is a view of *payload*.
    """
    command = COMMAND_BY_CODE.get(code)
    if command is None or not command.known_in(revision):
        raise IggyError(Reason.INVALID_COMMAND, f"{revision.name} has no command {code}")
    if revision is Revision.R3 and command.operation == REGISTER:
        raise IggyError(Reason.INVALID_COMMAND, "R3 logs in by its operation 1")
    name = command.request.__name__
    reader = PayloadReader(revision, payload)
    try:
        request: IggyRequest = REQUESTS[command.request].read(reader)
    except ValueError as error:
        raise IggyError(Reason.INVALID_COMMAND, f"{name}: {error}") from error
    if reader.left:
        raise IggyError(Reason.INVALID_COMMAND, f"{name}: {reader.left} bytes too many")
    return request


def request_parts(revision: Revision, request: IggyRequest) -> tuple[int, list[Part]]:
    """Return the command's code and the parts of the payload; a batch is one, not copied.

    Raises ValueError for what the revision can't say.
    """
    command = COMMAND_BY_REQUEST[type(request)]
    if not command.known_in(revision):
        raise ValueError(f"{revision.name} has no {type(request).__name__}")
    if revision is Revision.R3 and command.operation == REGISTER:
        raise ValueError("R3 logs in by its operation 1: logdrive.wire.iggy.vsr")
    writer = PayloadWriter(revision)
    REQUESTS[type(request)].write(request, writer)
    return command.code, writer.parts


def encode_request(revision: Revision, request: IggyRequest) -> tuple[int, bytes]:
    """Return the command's code and the payload. Raises ValueError as `request_parts` does."""
    code, parts = request_parts(revision, request)
    return code, b"".join(parts)
