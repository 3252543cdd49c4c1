"""Records: the JSON objects of J frames that agents write and the pipeline reads (rules R1, R2).

A run has records of one of these forms: blocks and lean records of a file's lines, a gap, or an
end. The rules are those of `docs/protocols/delivery.md`.
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


def block(
    start: int, end: int, lines: int, text: str, lengths: Sequence[int] | None = None
) -> bytes:
    """Return a block record: a contiguous run of the file's own text.

    *lengths* is needed only where events are not single lines or bytes were dropped: positive, an
    event of so many bytes; negative, so many bytes of the file dropped by a rule.
    """
    extra = b"" if lengths is None else b',"lengths":' + orjson.dumps(list(lengths))
    return b'{"log":{"offset":%d,"end":%d,"lines":%d},"message":%b%b}' % (
        start,
        end,
        lines,
        orjson.dumps(text),
        extra,
    )


def kept_json(value: dict[str, Any]) -> bytes:
    """Return *value* as JSON that takes no more memory than its length: orjson's own takes 4 KiB,
    however short, as long as it is kept.
    """
    return orjson.dumps([value])[1:-1]


def lean(
    start: int,
    end: int,
    message: str,
    *,
    eol: str = "\n",
    log: dict[str, Any] | None = None,
    original: str | None = None,
) -> bytes:
    """Return a lean record: one event without what its source's attributes say.

    *eol* is the line end that the message lacks, named in `log.eol` when it is not LF; *original*
    is the Base64 of bytes that are not UTF-8 (rule R2), *log* adds keys below `log`.
    """
    head: dict[str, Any] = {"offset": start, "end": end}
    if eol != "\n":
        head["eol"] = eol
    record: dict[str, Any] = {"log": head | (log or {}), "message": message}
    if original is not None:
        record["event"] = {"original_base64": original}
    return kept_json(record)


def lean_exact(start: int, end: int, message: str, exact: bytes) -> bytes:
    """Return what `lean` does for a line that ends with LF and, without it, is *exact*, which is
    not UTF-8; at a third of the cost.
    """
    original = b2a_base64(exact, newline=False)
    return b'{"log":{"offset":%d,"end":%d},"message":%b,"event":{"original_base64":"%b"}}' % (
        start,
        end,
        orjson.dumps(message),
        original,
    )


def gap(
    start: int, end: int, reason: str, *, end_exact: bool = True, store: UUID | None = None
) -> bytes:
    """Return a gap record (rule P4); *store* names the other store for the reason `elsewhere` (rule
    D5).
    """
    mark: dict[str, Any] = {"start": start, "end": end, "reason": reason, "end_exact": end_exact}
    if store is not None:
        mark["store"] = str(store)
    return kept_json({"log": {"gap": mark}})


def ended(end: int, reason: str, *, end_exact: bool = True) -> bytes:
    """Return an end record: the last run of a generation (rule G3).

    *end_exact* is told only where it is not so: bytes after the end, never seen, may have vanished
    with the generation.
    """
    mark: dict[str, Any] = {"end": end, "reason": reason}
    if not end_exact:
        mark["end_exact"] = False
    return kept_json({"log": {"ended": mark}})


def file_bytes(record: dict[str, Any]) -> bytes:
    """Return the bytes of the file that a data record, parsed, stands for (rule R2).

    Raises KeyError, TypeError or ValueError for what is no such record.
    """
    log, message = record.get("log") or {}, record["message"]
    original = (record.get("event") or {}).get("original_base64")
    text: bytes = message.encode() if original is None else base64.b64decode(original)
    return text if "lines" in log else text + str(log.get("eol", "\n")).encode()


def mark_of(record: bytes) -> bytes:
    """Return the JSON object inside a gap or end record, which its batch's header repeats as `mark`
    (rule R4).

    Raises ValueError where *record* is neither, or its object is not a flat one that every reader
    of JSON takes.
    """
    try:
        log = msgspec.json.decode(record, type=_MarkRecord).log
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a gap or end record: {error}") from error
    except RecursionError as error:
        raise ValueError("not a gap or end record: it is nested too deep") from error
    found = bytes(log.gap) or bytes(log.ended)
    try:
        mark = orjson.loads(found)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not a gap or end record: {error}") from error
    if not isinstance(mark, dict) or any(isinstance(value, dict | list) for value in mark.values()):
        raise ValueError("not a gap or end record")
    return found


class _Marks(msgspec.Struct):
    gap: msgspec.Raw = msgspec.Raw(b"")
    ended: msgspec.Raw = msgspec.Raw(b"")


class _MarkRecord(msgspec.Struct):
    log: _Marks
