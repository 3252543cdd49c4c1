"""Messages of the control socket: a request is one line of JSON, and so is its answer.

    {"do":"status","limit":20,"sort":"lag"}
    {"do":"resend","source":"/var/log/app.log","dry_run":true}

    {"ok":true,"status":{…}}   {"ok":true,"change":{…}}   {"ok":false,"error":"…"}

A connection has one request. Unknown keys and values out of range are refused.
"""

from typing import Annotated, Final, Literal

import msgspec

from agent.status import SourceStatus
from logdrive.model.units import KIB

REQUEST_BYTES: Final = 16 * KIB
"""Limit on a request, its line end included."""
ANSWER_BYTES: Final = 64 * KIB * KIB
"""Limit on an answer; that of ten thousand sources has about 5 MiB."""
MOST_SOURCES: Final = 10_000
"""Limit on the sources in one answer."""

SourceOrder = Literal["lag", "age", "rate", "size", "path"]
"""What sources are sorted by: lag in bytes or seconds, rate, size (the greatest first), or path."""

_Text = Annotated[str, msgspec.Meta(max_length=4096)]


class _Request(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="do"
):
    """Base of all requests; `do` says which one."""


class StatusRequest(_Request, frozen=True, kw_only=True, tag="status"):
    """Asks for the agent's figures, and for those of the first *limit* sources that match."""

    limit: Annotated[int, msgspec.Meta(ge=0, le=MOST_SOURCES)] = 20
    """Limit on the sources in the answer."""

    sort: SourceOrder = "lag"
    """The order of sources."""

    path: _Text | None = None
    """A path, or a pattern as in `[[input]] paths`."""

    state: _Text | None = None
    """Only sources in this state (`SourceStatus.state`)."""

    behind: bool = False
    """Only sources of which something is unacknowledged."""

    problems: bool = False
    """Only sources with which something went wrong, and absent ones; files that can't be read."""

    gone: bool = False
    """Ended and absent sources of the checkpoint, too."""


class ChangeRequest(_Request, frozen=True, kw_only=True):
    """Base of the requests that change a source."""

    source: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
    """Its path, or its origin id or the beginning of that."""

    dry_run: bool = False
    """Only say what would be done."""


class SkipRequest(ChangeRequest, frozen=True, kw_only=True, tag="skip"):
    """Leave out what a source has not sent yet."""


class ResendRequest(ChangeRequest, frozen=True, kw_only=True, tag="resend"):
    """Send the file of a source again from its beginning."""


class ForgetRequest(ChangeRequest, frozen=True, kw_only=True, tag="forget"):
    """Give up a source whose file no input would find again."""


Request = StatusRequest | SkipRequest | ResendRequest | ForgetRequest
_DECODER: Final = msgspec.json.Decoder(Request)


class RuleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule of a processor did since the start; what is read again is counted again."""

    input: str
    """The input, as in `input[0]`."""

    processor: int
    """The index of the processor in it."""

    action: str
    """What it does, such as "redact"."""

    rule: str
    """The rule, where it has several."""

    events: int
    """Events that it dropped, held back or changed."""

    bytes: int
    """Bytes of those that it dropped."""

    matches: int
    """Places in which it replaced something."""


class UnreadableFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that can't be read, and of which nothing ever was."""

    path: str
    """Its name."""

    problem: str
    """Why it can't be read."""


class AgentStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The agent as a whole, and the sources that were asked for. Sizes are in bytes."""

    agent: str
    """The agent's id."""

    version: str
    """Its version."""

    phase: str
    """"starting", "running" or "draining"."""

    uptime_seconds: float
    """Seconds since its start."""

    host: str
    """The receiver it is connected to, "" for none."""

    problem: str
    """What went wrong with the connection last, "" for nothing."""

    files: int
    """Files followed."""

    unreadable: int = 0
    """Files that can't be read now."""

    living: int
    """Sources that have not ended."""

    ended: int
    """Ended sources that are still in the checkpoint."""

    absent: int
    """Entries of the checkpoint with files that can't be looked for, or no input."""

    behind: int
    """Sources of which something can be sent and is unacknowledged."""

    events: int
    """Events acknowledged since the start."""

    bytes: int
    """Bytes of files acknowledged since the start."""

    gap_bytes: int
    """Bytes of gaps acknowledged since the start."""

    rate: float
    """Bytes acknowledged a second, lately."""

    lag_bytes: int
    """Bytes seen and not acknowledged, of all sources."""

    lag_seconds: float
    """The greatest lag of a source."""

    rules: list[RuleStatus]
    """What processors did."""

    matching: int
    """Sources, and files without one, that match the request."""

    sources: list[SourceStatus]
    """The first of them."""

    unreadable_files: list[UnreadableFile] = []
    """Files without a source that can't be read, where problems are asked for: the first of them,
    behind the sources.
    """


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What a request changes, or would change. Positions are in bytes."""

    action: str
    """"skip", "resend" or "forget"."""

    path: str
    """The path of the source."""

    origin: str
    """Its origin id."""

    start: int
    """Where the bytes begin that are concerned."""

    end: int
    """Where they end."""

    text: str
    """What is done, for people."""

    done: bool = False
    """Whether it was done; False for a dry run."""

    durable: bool = True
    """False if it was done, but the checkpoint could not be written since."""


class ControlAnswer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request."""

    ok: bool
    """Whether the request was understood and done."""

    error: str = ""
    """What was wrong with it, and what to do."""

    status: AgentStatus | None = None
    """The answer to a `StatusRequest`."""

    change: Change | None = None
    """The answer to a request that changes a source."""


class ControlError(Exception):
    """A request that can't be done; the message says why, and what to do. Never ends the agent."""


def decode_request(line: bytes) -> Request:
    """Return the request in *line*. Raises `ControlError`."""
    try:
        request: Request = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ControlError(f"not a request: {error}") from error
    return request


def encode_answer(answer: ControlAnswer) -> bytes:
    """Return *answer* as a line."""
    return msgspec.json.encode(answer) + b"\n"
