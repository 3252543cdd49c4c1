"""S2's errors: status, code and body, as an exception. See docs/protocols/s2.md#errors.

Servers raise what a function here makes, and send `S2Error.status` with `S2Error.body`. Clients
make the same exceptions from an answer, by `parse_error`.
"""

from typing import Final, NamedTuple

import msgspec
import orjson

from logdrive.errors import LogdriveError
from logdrive.wire.s2.limits import U64_MAX
from logdrive.wire.s2.positions import StreamPosition


class _Traits(NamedTuple):
    status: int
    retryable: bool
    no_side_effect: bool


_TRAITS: Final = {
    "bad_frame": _Traits(400, False, True),
    "bad_header": _Traits(400, False, True),
    "bad_json": _Traits(400, False, True),
    "bad_path": _Traits(400, False, True),
    "bad_proto": _Traits(400, False, True),
    "bad_query": _Traits(400, False, True),
    "decryption_failed": _Traits(400, False, True),
    "authn": _Traits(401, False, True),
    "permission_denied": _Traits(403, False, True),
    "quota_exhausted": _Traits(403, False, True),
    "access_token_not_found": _Traits(404, False, True),
    "basin_not_found": _Traits(404, False, True),
    "stream_not_found": _Traits(404, False, True),
    "request_timeout": _Traits(408, True, False),
    "basin_deletion_pending": _Traits(409, False, True),
    "resource_already_exists": _Traits(409, False, True),
    "stream_deletion_pending": _Traits(409, False, True),
    # S2 promises that it has no effect; a deletion that is answered so has been seen to take place.
    "transaction_conflict": _Traits(409, True, False),
    "invalid": _Traits(422, False, True),
    "rate_limited": _Traits(429, True, True),
    "client_hangup": _Traits(499, False, False),
    "other": _Traits(500, True, False),
    "storage": _Traits(500, True, False),
    "not_implemented": _Traits(501, False, True),
    "hot_server": _Traits(502, True, True),
    "server_draining": _Traits(503, True, True),
    "unavailable": _Traits(503, True, False),
    "upstream_timeout": _Traits(504, True, False),
}
# what a status means where the code is not known or is missing
_RETRYABLE: Final = frozenset({408, 429, 500, 502, 503, 504})
_REFUSALS: Final = frozenset({400, 401, 403, 404, 405, 412, 415, 416, 422, 429, 501})


class S2Error(LogdriveError):
    """A request that failed: HTTP *status*, S2's *code* (None: the answer has none) and *message*.

    An error without a code travels with an empty body.
    """

    def __init__(self, status: int, code: str | None, message: str) -> None:
        super().__init__(f"{code or status}: {message}" if message else f"{code or status}")
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> bytes:
        """Return the answer's body, JSON, which is a terminal frame's text, too."""
        if self.code is None:
            return b""
        return orjson.dumps({"code": self.code, "message": self.message})

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        traits = _TRAITS.get(self.code or "")
        return traits.retryable if traits else self.status in _RETRYABLE

    @property
    def no_side_effect(self) -> bool:
        """Whether the request is known to have changed nothing."""
        traits = _TRAITS.get(self.code or "")
        return traits.no_side_effect if traits else self.status in _REFUSALS


class FencingTokenMismatchError(S2Error):
    """412: the append's fencing token is not the stream's, which is *token*."""

    def __init__(self, token: str) -> None:
        super().__init__(412, None, f"the stream's fencing token is {token!r}")
        self.token = token

    def body(self) -> bytes:
        """Return the answer's body, with the token."""
        return orjson.dumps({"fencing_token_mismatch": self.token})


class SeqNumMismatchError(S2Error):
    """412: the append's `match_seq_num` is not the next sequence number, which is *seq_num*."""

    def __init__(self, seq_num: int) -> None:
        super().__init__(412, None, f"the next sequence number is {seq_num}")
        self.seq_num = seq_num

    def body(self) -> bytes:
        """Return the answer's body, with the number."""
        return orjson.dumps({"seq_num_mismatch": self.seq_num})


class RangeNotSatisfiableError(S2Error):
    """416: a read begins where nothing is written, and does not wait; the stream ends at *tail*."""

    def __init__(self, tail: StreamPosition) -> None:
        super().__init__(416, None, f"nothing is written there: the stream ends at {tail.seq_num}")
        self.tail = tail

    def body(self) -> bytes:
        """Return the answer's body, with the tail."""
        return msgspec.json.encode({"tail": self.tail})


class _Answer(msgspec.Struct):
    code: str | None = None
    message: str = ""
    fencing_token_mismatch: str | None = None
    seq_num_mismatch: int | None = None
    tail: StreamPosition | None = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_SHOWN: Final = 200  # characters of a body that is not S2's, in a message


def parse_error(status: int, body: bytes) -> S2Error:
    """Return the error that an answer with *status* and *body* means; any body will do."""
    try:
        answer = _ANSWER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return S2Error(status, None, body[:_SHOWN].decode(errors="replace"))
    if status == 412 and answer.fencing_token_mismatch is not None:
        return FencingTokenMismatchError(answer.fencing_token_mismatch)
    number, tail = answer.seq_num_mismatch, answer.tail
    if status == 412 and number is not None and 0 <= number <= U64_MAX:
        return SeqNumMismatchError(number)
    if status == 416 and tail and 0 <= tail.seq_num <= U64_MAX and 0 <= tail.timestamp <= U64_MAX:
        return RangeNotSatisfiableError(tail)
    return S2Error(status, answer.code, answer.message)


def _error(code: str, message: str) -> S2Error:
    return S2Error(_TRAITS[code].status, code, message)


def bad_frame(message: str) -> S2Error:
    """400: bytes of a session that are no frame, or a frame that holds no message."""
    return _error("bad_frame", message)


def bad_header(message: str) -> S2Error:
    """400: a header of the request that is missing or means nothing."""
    return _error("bad_header", message)


def bad_json(message: str) -> S2Error:
    """400: a body that is no JSON of the expected shape."""
    return _error("bad_json", message)


def bad_path(message: str) -> S2Error:
    """400: a name in the path that is none."""
    return _error("bad_path", message)


def bad_proto(message: str) -> S2Error:
    """400: a body that is no protobuf message of the expected type."""
    return _error("bad_proto", message)


def bad_query(message: str) -> S2Error:
    """400: a query parameter that can't be read."""
    return _error("bad_query", message)


def decryption_failed(message: str) -> S2Error:
    """400: the key given does not open the records."""
    return _error("decryption_failed", message)


def authn(message: str) -> S2Error:
    """401: no token, or one that is not known."""
    return _error("authn", message)


def permission_denied(message: str) -> S2Error:
    """403: the token does not allow the operation."""
    return _error("permission_denied", message)


def quota_exhausted(message: str) -> S2Error:
    """403: there may be no more of it."""
    return _error("quota_exhausted", message)


def access_token_not_found(token_id: str) -> S2Error:
    """404: no access token has this id."""
    return _error("access_token_not_found", f"there is no access token {token_id!r}")


def basin_not_found(basin: str) -> S2Error:
    """404: no basin has this name."""
    return _error("basin_not_found", f"there is no basin {basin!r}")


def stream_not_found(stream: str) -> S2Error:
    """404: no stream of the basin has this name."""
    return _error("stream_not_found", f"there is no stream {stream!r}")


def request_timeout(message: str) -> S2Error:
    """408: the request took too long; nothing is known of its effect."""
    return _error("request_timeout", message)


def basin_deletion_pending(basin: str) -> S2Error:
    """409: the basin is being deleted."""
    return _error("basin_deletion_pending", f"basin {basin!r} is being deleted")


def resource_already_exists(message: str) -> S2Error:
    """409: what was to be created is there."""
    return _error("resource_already_exists", message)


def stream_deletion_pending(stream: str) -> S2Error:
    """409: the stream is being deleted."""
    return _error("stream_deletion_pending", f"stream {stream!r} is being deleted")


def transaction_conflict(message: str) -> S2Error:
    """409: another change of the same thing was under way."""
    return _error("transaction_conflict", message)


def invalid(message: str) -> S2Error:
    """422: a request that can be read and breaks a rule."""
    return _error("invalid", message)


def rate_limited(message: str) -> S2Error:
    """429: too many requests."""
    return _error("rate_limited", message)


def client_hangup(message: str) -> S2Error:
    """499: the client went before the answer; for logs and counters."""
    return _error("client_hangup", message)


def other(message: str) -> S2Error:
    """500: a failure that has no code of its own; nothing is known of the request's effect."""
    return _error("other", message)


def storage(message: str) -> S2Error:
    """500: the store failed; nothing is known of the request's effect."""
    return _error("storage", message)


def not_implemented(message: str) -> S2Error:
    """501: an operation that is not served here."""
    return _error("not_implemented", message)


def hot_server(message: str) -> S2Error:
    """502: too much is going on; the request was not begun."""
    return _error("hot_server", message)


def server_draining(message: str) -> S2Error:
    """503: the server is about to stop; the request was not begun."""
    return _error("server_draining", message)


def unavailable(message: str) -> S2Error:
    """503: the service ended the request; nothing is known of its effect."""
    return _error("unavailable", message)


def upstream_timeout(message: str) -> S2Error:
    """504: something behind the server took too long; nothing is known of the effect."""
    return _error("upstream_timeout", message)


def no_such_route() -> S2Error:
    """404 with an empty body: no operation has this path."""
    return S2Error(404, None, "")


def method_not_allowed() -> S2Error:
    """405 with an empty body: the path has no operation of this method."""
    return S2Error(405, None, "")


def unsupported_media_type() -> S2Error:
    """415 with an empty body: a content type or a content encoding that is not read."""
    return S2Error(415, None, "")
