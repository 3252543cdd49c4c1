"""Records: the JSON objects of J frames, written by agents and read by the pipeline (R1, R2).

A run has records of one kind: blocks and lean records of a file's lines, a gap, or an end.
`docs/protocols/delivery.md` has the rules.
"""

import base64
import codecs
from binascii import b2a_base64
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
import orjson

_NO_CHARACTERS: Final = frozenset(("idna", "punycode", "undefined"))
"""Codecs of Python that are no encodings of files; two take time that grows faster than their
text.
"""

DATA, GAP, END = 0, 1, 2
"""Kinds of run, as in the B frame."""
KINDS: Final = ("data", "gap", "end")
"""The same as batch headers name them, by number."""


# Flags of single events: `log.flags`.
PARTIAL: Final = "partial"
"""A part of an event, but not its last one."""
ENTRY: Final = "entry"
"""Flag of an entry of a journal: its source's positions count entries, so its message fills no
interval of bytes.
"""
REDACTED: Final = "redacted"
"""Its message is not the file's text, as the operator has asked for."""
TRUNCATED: Final = "truncated"
"""The beginning of an event; what is over the operator's limit on its bytes was left out."""


def block_record(
    start: int, end: int, lines: int, text: str, lengths: Sequence[int] | None = None
) -> bytes:
    """Return a block record: consecutive lines of the file's own text.

    *lengths* is needed only if events are not single lines, or bytes were dropped. A positive entry
    is an event of that many bytes; a negative one is that many bytes of the file dropped by a rule.
    """
    extra = b"" if lengths is None else b',"lengths":' + orjson.dumps(list(lengths))
    return b'{"log":{"offset":%d,"end":%d,"lines":%d},"message":%b%b}' % (
        start,
        end,
        lines,
        orjson.dumps(text),
        extra,
    )


def compact_json(value: dict[str, Any]) -> bytes:
    """Return *value* as JSON that occupies no more memory than its length.

    The bytes that orjson returns occupy 4 KiB however short they are, which matters for what is
    kept.
    """
    return orjson.dumps([value])[1:-1]


def lean_record(
    start: int,
    end: int,
    message: str,
    *,
    eol: str = "\n",
    log: dict[str, Any] | None = None,
    original: str | None = None,
) -> bytes:
    """Return a lean record: one event without its source's attributes.

    *eol* is the line end that follows the message; `log.eol` names it if it is not LF. *original*
    is the Base64 of bytes that are not UTF-8 (rule R2). *log* adds keys below `log`.
    """
    head: dict[str, Any] = {"offset": start, "end": end}
    if eol != "\n":
        head["eol"] = eol
    record: dict[str, Any] = {"log": head | (log or {}), "message": message}
    if original is not None:
        record["event"] = {"original_base64": original}
    return compact_json(record)


def exact_lean_record(start: int, end: int, message: str, exact: bytes) -> bytes:
    """Return what `lean_record` returns for a line that is not UTF-8 and ends with LF.

    *exact* is the line without LF. Costs a third of `lean_record`.
    """
    original = b2a_base64(exact, newline=False)
    return b'{"log":{"offset":%d,"end":%d},"message":%b,"event":{"original_base64":"%b"}}' % (
        start,
        end,
        orjson.dumps(message),
        original,
    )


def gap_record(
    start: int, end: int, reason: str, *, end_exact: bool = True, store: UUID | None = None
) -> bytes:
    """Return a gap record (rule P4).

    *store* names the other store for the reason `elsewhere` (rule D5).
    """
    mark: dict[str, Any] = {"start": start, "end": end, "reason": reason, "end_exact": end_exact}
    if store is not None:
        mark["store"] = str(store)
    return compact_json({"log": {"gap": mark}})


def end_record(end: int, reason: str, *, end_exact: bool = True) -> bytes:
    """Return an end record: the last run of a generation (rule G3).

    *end_exact* is written only if False: bytes after the end that were never seen may have vanished
    with the generation.
    """
    mark: dict[str, Any] = {"end": end, "reason": reason}
    if not end_exact:
        mark["end_exact"] = False
    return compact_json({"log": {"ended": mark}})


def file_bytes(record: dict[str, Any]) -> bytes:
    """Return the bytes of the file that a parsed data record represents (rule R2).

    Raises KeyError, TypeError or ValueError for another record.
    """
    log, message = record.get("log") or {}, record["message"]
    if "lines" in log:
        return bytes(message.encode())
    exact = exact_bytes(record)
    text: bytes = message.encode() if exact is None else exact
    return text + str(log.get("eol", "\n")).encode()


def exact_bytes(record: dict[str, Any]) -> bytes | None:
    """Return the bytes of the event in a lean or full record, without its line end (rule R2).

    None if its message has them, in UTF-8. Raises ValueError for bytes, or an encoding, that are
    none.
    """
    event, log = record.get("event"), record.get("log")
    if type(event) is dict:
        if type(encoded := event.get("original_base64")) is str:
            return base64.b64decode(encoded, validate=True)
        # other shippers' records may have a text of that name, and no `end`
        if type(log) is dict and "end" in log and type(text := event.get("original")) is str:
            return bytes(text.encode())
    if type(log) is dict and type(encoding := log.get("encoding")) is str and "end" in log:
        return encode_text(record["message"], encoding)
    return None


def encode_text(text: str, encoding: str) -> bytes:
    """Return *text* in an *encoding* that a record names. Raises ValueError if it can't be."""
    try:
        name = codecs.lookup(encoding).name
        if name in _NO_CHARACTERS:
            raise ValueError(f"no encoding of a file: {encoding!r}")
        return text.encode(name)
    except LookupError as error:
        raise ValueError(f"no encoding: {encoding!r}") from error


def mark_in_record(record: bytes) -> bytes:
    """Return the JSON object in a gap or end record; its batch's header repeats it as `mark` (R4).

    Raises ValueError for other records, and if the object is not flat or not valid JSON.
    """
    try:
        log = msgspec.json.decode(record, type=_MarkRecord).log
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a gap or end record: {error}") from error
    except RecursionError as error:
        raise ValueError("not a gap or end record: it is nested too deep") from error

    encoded = bytes(log.gap) or bytes(log.ended)
    try:
        mark = orjson.loads(encoded)  # a `Raw` is not checked by msgspec
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not a gap or end record: {error}") from error
    if not isinstance(mark, dict) or any(isinstance(value, dict | list) for value in mark.values()):
        raise ValueError("not a gap or end record")
    return encoded


class _Marks(msgspec.Struct):
    gap: msgspec.Raw = msgspec.Raw(b"")
    ended: msgspec.Raw = msgspec.Raw(b"")


class _MarkRecord(msgspec.Struct):
    log: _Marks
