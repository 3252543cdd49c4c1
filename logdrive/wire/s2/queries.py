"""Query parameters of reads and of lists. See docs/protocols/s2.md#reading."""

from typing import Final
from urllib.parse import parse_qsl, urlencode

import msgspec

from logdrive.wire.s2.errors import bad_query, invalid
from logdrive.wire.s2.limits import (
    LIST_ITEMS,
    READ_BYTES,
    READ_RECORDS,
    U64_MAX,
    UNARY_WAIT_SECONDS,
)
from logdrive.wire.s2.sse import LastEventId

_BOOLEANS: Final = {"true": True, "false": False}


class ReadQuery(msgspec.Struct, frozen=True, gc=False):
    """What a reader asks for. At most one of the first three, where it begins, is given; if none
    is, it begins at the tail.
    """

    seq_num: int | None = None
    """Begin at this number."""
    timestamp: int | None = None
    """Begin at the first record of this time, in milliseconds since 1970, or later."""
    tail_offset: int | None = None
    """Begin so many records before the tail."""
    clamp: bool = False
    """Begin at the tail if the place asked for is after it."""
    count: int | None = None
    """Return at most so many records."""
    bytes: int | None = None
    """Return at most so many metered bytes."""
    until: int | None = None
    """Stop before the first record of this time or later."""
    wait: int | None = None
    """Seconds to wait at the tail for the next record."""

    @property
    def may_follow(self) -> bool:
        """Whether the read goes on at the tail: docs/protocols/s2.md#may-follow."""
        bounded = not (self.count is None and self.bytes is None and self.until is None)
        return not bounded or bool(self.wait)

    def unary(self) -> "ReadQuery":
        """Return the query with the limits of a unary read."""
        return msgspec.structs.replace(
            self,
            count=READ_RECORDS if self.count is None else min(self.count, READ_RECORDS),
            bytes=READ_BYTES if self.bytes is None else min(self.bytes, READ_BYTES),
            wait=None if self.wait is None else min(self.wait, UNARY_WAIT_SECONDS),
        )

    def resumed(self, last: LastEventId) -> "ReadQuery":
        """Return what is left of the query after *last*."""
        return msgspec.structs.replace(
            self,
            seq_num=min(last.seq_num + 1, U64_MAX),
            timestamp=None,
            tail_offset=None,
            count=None if self.count is None else max(0, self.count - last.count),
            bytes=None if self.bytes is None else max(0, self.bytes - last.bytes),
        )

    def encode(self) -> str:
        """Return the query as it stands in a URL, without "?"."""
        given = msgspec.structs.asdict(self)
        del given["clamp"]
        pairs = [(key, str(value)) for key, value in given.items() if value is not None]
        return urlencode([*pairs, ("clamp", "true")] if self.clamp else pairs)


class ListQuery(msgspec.Struct, frozen=True, gc=False):
    """Which names of a sorted list are asked for: those with *prefix*, after *start_after*, and at
    most *limit* of them.
    """

    prefix: str = ""
    start_after: str = ""
    limit: int = LIST_ITEMS

    def encode(self) -> str:
        """Return the query as it stands in a URL, without "?"."""
        return urlencode(msgspec.structs.asdict(self))


def parse_read_query(raw: str) -> ReadQuery:
    """Return what the raw query of a URL asks for; unknown parameters are ignored.

    Raises `S2Error`: bad_query for a value that can't be read, 422 for values that contradict
    each other.
    """
    given = _parameters(raw)
    query = ReadQuery(
        seq_num=_number(given, "seq_num"),
        timestamp=_number(given, "timestamp"),
        tail_offset=_number(given, "tail_offset"),
        clamp=_boolean(given, "clamp"),
        count=_number(given, "count"),
        bytes=_number(given, "bytes"),
        until=_number(given, "until"),
        wait=_number(given, "wait"),
    )
    starts = (query.seq_num, query.timestamp, query.tail_offset)
    if sum(start is not None for start in starts) > 1:
        raise invalid("only one of seq_num, timestamp and tail_offset may be given")
    if query.timestamp is not None and query.until is not None and query.timestamp >= query.until:
        raise invalid("timestamp must be before until")
    return query


def parse_list_query(raw: str) -> ListQuery:
    """Return what the raw query of a URL asks for; raise `S2Error`, bad_query."""
    given = _parameters(raw)
    limit = _number(given, "limit") or LIST_ITEMS
    return ListQuery(given.get("prefix", ""), given.get("start_after", ""), min(limit, LIST_ITEMS))


def _parameters(raw: str) -> dict[str, str]:
    """Return the parameters of a query; raise `S2Error`, bad_query, for one that is repeated."""
    try:
        pairs = parse_qsl(raw, keep_blank_values=True, errors="strict", max_num_fields=100)
    except ValueError:
        raise bad_query("a query that is not UTF-8, or has over 100 parameters") from None
    given = dict(pairs)
    if len(given) != len(pairs):
        raise bad_query("a query parameter is given twice")
    return given


def _number(given: dict[str, str], key: str) -> int | None:
    text = given.get(key)
    if text is None:
        return None
    if not (len(text) <= 20 and text.isascii() and text.isdigit()) or int(text) > U64_MAX:
        raise bad_query(f"{key} is a number from 0 to {U64_MAX}, not {text[:32]!r}")
    return int(text)


def _boolean(given: dict[str, str], key: str) -> bool:
    text = given.get(key, "false")
    if text not in _BOOLEANS:
        raise bad_query(f"{key} is true or false, not {text[:32]!r}")
    return _BOOLEANS[text]
