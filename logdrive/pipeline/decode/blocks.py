"""Reads block records (rule R1): many lines of a file as one JSON string.

The blocks that agents write are read without a JSON parser, in one pass over their text. Any other
JSON that says the same is parsed as every record is, and comes to the same rows.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from logdrive.kernel.text_loops import json_text
from logdrive.model.limits import MAX_POSITION

_NUMBER: Final = rb"(0|[1-9][0-9]{0,14})"  # as JSON writes it, below 2^63
_HEAD: Final = re.compile(
    rb'\{"log":\{"offset":%b,"end":%b,"lines":%b\},"message":' % (_NUMBER, _NUMBER, _NUMBER)
)


class BlockText(NamedTuple):
    """Consecutive events of a file."""

    text: bytes
    """The file's own bytes, without those that were dropped."""
    start: int
    """Where it begins in the file."""
    end: int
    """Where it ends there."""
    lengths: Sequence[int] | None
    """As in `split_lengths`; None if each event is a line, whose line end the last one may lack."""


def scan_block(payload: bytes) -> BlockText | None:
    """Return the block of lines in *payload*, written as agents write it; None for all else.

    None also if its figures contradict its text: `parse_block` finds that, too.
    """
    head = _HEAD.match(payload)
    if head is None or not payload.endswith(b'"}'):
        return None
    try:
        text = json_text(payload, head.end(), len(payload) - 1)
        return _checked(BlockText(text, int(head[1]), int(head[2]), None))
    except ValueError:
        return None


def parse_block(value: dict[str, Any], log: dict[str, Any]) -> BlockText:
    """Return the block that a record with *value* is; *log* is what it has by that name.

    Raises ValueError if its figures contradict its text; whether its lengths do is not looked at.
    """
    message, start, end = value.get("message"), log.get("offset"), log.get("end")
    if not (isinstance(message, str) and isinstance(start, int) and isinstance(end, int)):
        raise ValueError("a block without text or positions")
    return _checked(BlockText(message.encode(), start, end, value.get("lengths")))


def _checked(block: BlockText) -> BlockText:
    if not 0 <= block.start < block.end < MAX_POSITION:
        raise ValueError("a block without positions")
    # the last line may have no line end, as at the end of a file
    if block.lengths is None and len(block.text) != block.end - block.start:
        raise ValueError("the text is not as long as its interval")
    return block
