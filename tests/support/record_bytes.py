"""The file's bytes in one record of a file, by rules R1 and R2 alone."""

import base64
from collections.abc import Sequence
from typing import Any

Pieces = list[tuple[int, bytes]]
"""Positions in the file, and the bytes there."""


def bytes_of(record: dict[str, Any]) -> tuple[bytes, int]:
    """Return the file's bytes in a lean, full or block record, and how many events they are."""
    log = record["log"]
    if "lines" in log:
        return record["message"].encode(), log["lines"]
    eol = log.get("eol", "\n").encode()
    event = record.get("event", {})
    if "original_base64" in event:
        message = base64.b64decode(event["original_base64"])
    elif "original" in event and "end" in log:
        message = event["original"].encode()
    else:
        message = record["message"].encode(log.get("encoding", "utf-8"))
    return message + eol, 1


def span_of(record: dict[str, Any], data: bytes) -> int:
    """Return how many positions a record of one event takes: as many as it has bytes, or 1 for an
    entry of a journal.
    """
    return 1 if "entry" in record["log"].get("flags", ()) else len(data)


def pieces_of(record: dict[str, Any], start: int) -> tuple[Pieces, int, int]:
    """Return the file's bytes in a record that begins at *start*, its events, and where it ends.

    Raises AssertionError if it begins or ends elsewhere by its own account.
    """
    log, (data, events) = record["log"], bytes_of(record)
    pieces, end = [(start, data)], start + span_of(record, data)
    if "lengths" in record:
        pieces, end = cut(data, record["lengths"], start)
        assert len(pieces) == events, f"{log} has {len(pieces)} events"
    # full records don't name their end
    said = log["offset"], log.get("end", end)
    assert said == (start, end), f"{log} holds {end - start} bytes after {start}"
    return pieces, events, end


def cut(text: bytes, lengths: Sequence[int], start: int) -> tuple[Pieces, int]:
    """Return the events in *text*, which begins at *start* in its file, and where it ends there.

    Each of *lengths* is an event's, or negative that of what was left out. Raises AssertionError.
    """
    assert 0 not in lengths, "a length of 0"
    assert sum(length for length in lengths if length > 0) == len(text), "lengths of another text"
    pieces, at, position = [], 0, start
    for length in lengths:
        if length > 0:
            pieces.append((position, text[at : at + length]))
            at += length
        position += abs(length)
    return pieces, position
