"""Entries of the journal: where they are, and what their events say."""

import base64
import re
from typing import Any, Final

import msgspec
import orjson

from agent.events.event import Event
from agent.inputs.journald.export import MESSAGE, Fields, ParsedEntry
from logdrive.errors import ProtocolError
from logdrive.model.limits import MAX_POSITION, RECORD_BYTES
from logdrive.model.records import ENTRY, TRUNCATED

_CURSOR: Final = re.compile(rb"s=([0-9a-f]{32});i=([0-9a-f]{1,16});b=([0-9a-f]{32});")
_MOST_JSON: Final = RECORD_BYTES // 2
"""Limit on an event's fields as JSON, and on its message: both must fit into a record."""


class BootId(msgspec.Struct, frozen=True, gc=False):
    """What one source of the journal is: the entries of one boot that are numbered together."""

    boot: str
    """The boot's id."""

    sequence: str
    """Id of the numbers: another one where the journal began to count anew. After "+" the number
    from which on the source goes on after one that has ended.
    """

    def continued_at(self, number: int) -> "BootId":
        """Return the source of what comes from *number* on, after this one has ended."""
        return BootId(self.boot, f"{self.sequence.partition('+')[0]}+{number:x}")


class JournalEntry(msgspec.Struct, frozen=True, gc=False):
    """One entry."""

    boot: BootId
    """The source that it belongs to."""

    number: int
    """Its sequence number: its position."""

    fields: Fields
    """What it has."""

    cut: bool
    """Whether not all of it was kept."""

    size: int
    """Bytes of memory that it takes, about."""


def entry_of(parsed: ParsedEntry) -> JournalEntry:
    """Return the entry with its place. Raises `ProtocolError` without a cursor."""
    fields = parsed.fields
    cursor = fields.get(b"__CURSOR", [b""])[0]
    found = _CURSOR.match(cursor)
    if found is None or not 0 < (number := int(found[2], 16)) < MAX_POSITION - 1:
        raise ProtocolError(f"an entry with the cursor {cursor[:200]!r}", offset=0)
    message = sum(map(len, fields.get(MESSAGE, ())))
    size = parsed.size + message + 100 * len(fields) + 200
    boot = BootId(found[3].decode(), found[1].decode())
    return JournalEntry(boot, number, fields, parsed.cut, size)


def cursor_after(boot: BootId, number: int) -> str:
    """Return a cursor of the entry with *number*, made of what is known of it."""
    return f"s={boot.sequence.partition('+')[0]};i={number:x};b={boot.boot}"


def event_of(entry: JournalEntry) -> Event:
    """Return the event of *entry*: its message, its time, and all fields as the journal names them.

    The names that begin with two underscores are the journal's addresses, and left out.
    """
    values: dict[str, Any] = {
        name.decode(errors="replace"): _value(each[0])
        if len(each) == 1
        else list(map(_value, each))
        for name, each in entry.fields.items()
        if name != MESSAGE and not name.startswith(b"__")
    }
    cut = _drop_longest(values) or entry.cut

    message = b"\n".join(entry.fields.get(MESSAGE, ()))
    if len(orjson.dumps(message.decode(errors="replace"))) > _MOST_JSON - 1:
        message, cut = message[: _MOST_JSON // 8], True
    flags = (ENTRY, TRUNCATED) if cut else (ENTRY,)
    text, original = _text(message)
    time = _number(entry.fields.get(b"_SOURCE_REALTIME_TIMESTAMP")) or _number(
        entry.fields.get(b"__REALTIME_TIMESTAMP")
    )
    return Event(
        entry.number,
        entry.number + 1,
        text,
        original=original,
        flags=flags,
        fields={"journald": values},
        time_ms=time // 1000 if time else None,
    )


def _drop_longest(values: dict[str, Any]) -> bool:
    """Drop the longest of *values* while all together are too long; return whether any was."""
    total, dropped = len(orjson.dumps(values)), False
    if total > _MOST_JSON:  # escaped text is longer
        sizes = {name: len(orjson.dumps({name: value})) - 1 for name, value in values.items()}
        for name in sorted(sizes, key=lambda name: sizes[name], reverse=True):
            if total <= _MOST_JSON:
                break
            del values[name]
            total, dropped = total - sizes[name], True
    return dropped


def _value(value: bytes) -> Any:
    """Return a field's value: text, or, where it is none, its bytes in Base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def _text(message: bytes) -> tuple[str, bytes | None]:
    try:
        return message.decode(), None
    except UnicodeDecodeError:
        return message.decode(errors="replace"), message


def _number(values: list[bytes] | None) -> int:
    text = values[0] if values else b""
    return int(text) if text.isdigit() and len(text) <= 18 else 0
