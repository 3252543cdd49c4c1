"""Records: the JSON objects of J frames, written by agents and read by the pipeline (R1, R2).

A run has records of one kind: blocks and lean records of a file's lines, a gap, or an end.
`docs/protocols/delivery.md` has the rules.
"""

import base64
from binascii import b2a_base64
from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
import orjson

DATA, GAP, END = 0, 1, 2
"""Kinds of run, as in the B frame."""
KINDS: Final = ("data", "gap", "end")
"""The same as batch headers name them, by number."""


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
    original = (record.get("event") or {}).get("original_base64")
    text: bytes = message.encode() if original is None else base64.b64decode(original)
    return text if "lines" in log else text + str(log.get("eol", "\n")).encode()


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
