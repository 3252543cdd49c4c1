"""Rebuilds a file's bytes from its records, by rules R1 and R2 alone."""

import base64
from collections.abc import Iterable
from typing import Any

import orjson


def bytes_of(record: bytes) -> tuple[int, int, bytes, int]:
    """Return start, end, the file's bytes and the number of events of one data record of any
    form.
    """
    parsed: dict[str, Any] = orjson.loads(record)
    log = parsed["log"]
    if "lines" in log:
        data = parsed["message"].encode()
        return log["offset"], log["end"], data, log["lines"]
    original = parsed.get("event", {}).get("original_base64")
    message = base64.b64decode(original) if original is not None else parsed["message"].encode()
    data = message + log.get("eol", "\n").encode()
    return log["offset"], log.get("end", log["offset"] + len(data)), data, 1


def rebuilt(records: Iterable[bytes], start: int) -> tuple[bytes, int]:
    """Return the bytes of *records*, without a gap from *start* on, and their number of events."""
    parts, at, events = [], start, 0
    for record in records:
        begin, end, data, count = bytes_of(record)
        assert begin == at, f"a record at {begin} after {at}"
        assert end - begin == len(data), f"a record of {end - begin} bytes holds {len(data)}"
        parts.append(data)
        at, events = end, events + count
    return b"".join(parts), events
