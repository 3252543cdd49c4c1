"""The file's bytes in one record of a file, by rules R1 and R2 alone."""

import base64
from typing import Any


def bytes_of(record: dict[str, Any]) -> tuple[bytes, int]:
    """Return the file's bytes in a lean, full or block record, and how many events they are."""
    log = record["log"]
    if "lines" in log:
        return record["message"].encode(), log["lines"]
    eol = log.get("eol", "\n").encode()
    original = record.get("event", {}).get("original_base64")
    message = base64.b64decode(original) if original is not None else record["message"].encode()
    return message + eol, 1
