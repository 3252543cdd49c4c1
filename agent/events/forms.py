"""Forms of an event's record: lean, full, and the pairs of Lumberjack v1 (rule R1).

Costs about 1 µs an event besides its fields.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

import orjson

from agent.events.event import Event
from agent.events.record_parts import TIMESTAMP, RecordParts, is_plain, members, time_text
from logdrive.model.records import REDACTED
from logdrive.records.flatten import (
    ENCODING,
    END,
    EOL,
    FLAGS,
    LINE,
    OFFSET,
    ORIGINAL,
    PARTS,
    RAW,
    TIME,
    flatten_fields,
)
from logdrive.records.pairs import Pair, PairList, SamePairs
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK

_NO_TIME: Final = "1970-01-01T00:00:00.000Z"


class EventForm(Protocol):
    """What an event becomes."""

    def encode_event(self, event: Event, read_ms: int) -> bytes:
        """Return the record of *event*, which was read at *read_ms*, milliseconds since 1970.

        It may be longer than a record may be. Raises ValueError for more pairs than a frame holds,
        and TypeError for a field that JSON does not have.
        """
        ...

    def new_list(self) -> list[bytes]:
        """Return an empty list for the records of one run."""
        ...


class LeanForm:
    """Lean records: what the source's attributes say is not repeated."""

    def encode_event(self, event: Event, read_ms: int) -> bytes:
        """Return the record of *event*."""
        if is_plain(event):
            return b'{"log":{"offset":%d,"end":%d},"message":%b%b}' % (
                event.start,
                event.end,
                orjson.dumps(event.message),
                members(event.fields),
            )
        parts = RecordParts(event)
        record: dict[str, Any] = {"log": parts.log, "message": event.message}
        if parts.event:
            record["event"] = parts.event
        if parts.time is not None:
            record[TIMESTAMP] = parts.time
        if parts.below:
            record["fields"] = parts.below
        return b"{%b}" % members(record | parts.top)[1:]

    def new_list(self) -> list[bytes]:
        """Return an empty list for lean records."""
        return []


class FullForm:
    """Full records, each self-contained, as Beats and readers without sources take them."""

    def __init__(self, common: dict[str, Any], path: str, origin: str) -> None:
        """Put *common* into each record: host, agent, the input's fields and tags."""
        self._common = common
        self._labels: dict[str, Any] = common.get("fields", {})
        self._log = {"file": {"path": path}, "origin": origin}
        self._read_ms, self._read = -1, _NO_TIME  # when the last event was read
        # a plain record: time, offset, end, message, fields
        same = members(common) + b',"log":' + orjson.dumps(self._log)[:-1]
        self._plain = b'{"@timestamp":"%%b"%b,"offset":%%d,"end":%%d},"message":%%b%%b}' % (
            same.replace(b"%", b"%%")
        )

    def encode_event(self, event: Event, read_ms: int) -> bytes:
        """Return the record of *event*."""
        if read_ms != self._read_ms:
            self._read_ms, self._read = read_ms, time_text(read_ms) or _NO_TIME
        if is_plain(event):
            return self._plain % (
                self._read.encode(),
                event.start,
                event.end,
                orjson.dumps(event.message),
                members(event.fields),
            )
        parts = RecordParts(event)
        record: dict[str, Any] = {TIMESTAMP: parts.time or self._read, **self._common}
        # the operator's labels go before what a line says
        if parts.below:
            record["fields"] = parts.below | self._labels
        record |= {"log": self._log | parts.log, "message": event.message}
        if parts.event:
            record["event"] = parts.event
        return b"{%b}" % members(record | parts.top)[1:]

    def new_list(self) -> list[bytes]:
        """Return an empty list for full records."""
        return []


class PairForm:
    """Pairs of text, with dots in the names of nested fields."""

    def __init__(self, same: Sequence[Pair]) -> None:
        """Put *same*, the pairs that all events of the source share, into each record."""
        self._same = SamePairs(same)
        self._others = PLAIN_LUMBERJACK.pairs - len(same)
        self._names = frozenset(name for name, _ in same)

    def encode_event(self, event: Event, read_ms: int) -> bytes:
        """Return the record of *event*."""
        parts = RecordParts(event)
        first = [(LINE, event.message), (OFFSET, str(event.start))]
        pairs = list[Pair]()
        if parts.time is not None:
            pairs.append((TIME, parts.time))
        if event.eol != "\n":
            pairs.append((EOL, event.eol))
        if event.encoding:
            pairs.append((ENCODING, event.encoding))
        if event.flags:
            pairs.append((FLAGS, ",".join(event.flags)))
        if event.parts:
            pairs.append((PARTS, ",".join(f"{start}-{end}" for start, end in event.parts)))
        for name, key in (("original", RAW), ("original_base64", ORIGINAL)):
            if name in parts.event:
                pairs.append((key, parts.event[name]))
        if REDACTED in event.flags:
            pairs.append((END, str(event.end)))
        room = self._others - len(first) - len(pairs)
        pairs += flatten_fields(parts.fields, self._names, room)
        return self._same.encode_between(first, pairs)

    def new_list(self) -> list[bytes]:
        """Return an empty list for records of pairs."""
        return PairList()
