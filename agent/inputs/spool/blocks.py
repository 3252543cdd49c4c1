"""Blocks: what an append to the spool holds. A codec without I/O.

    position:u64  text:u32  senders:u32  senders (JSON)  text

*position* is where the text begins in its source. A block usually goes on where the one before
ended. If it begins later, what lies between was lost before it came to the spool (rule P4).

Lines are text alone, and end where a cutter finds their ends. Messages have boundaries of their
own, and senders: `[[address, [length, …]], …]`, each length with the newline that follows each
message in the text, negative for a message whose rest was cut off.

Recovery is the store's: an append is there whole or not at all, and is checked by its CRC.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import orjson

_HEAD: Final = struct.Struct(">QII")
HEAD_BYTES: Final = _HEAD.size

Senders = list[tuple[str, list[int]]]
"""Consecutive messages by sender."""


@dataclass(frozen=True, slots=True)
class BlockHead:
    """The first bytes of a block. Positions and sizes are in bytes."""

    position: int
    """The position of its text in the source."""

    text: int
    """Length of the text."""

    senders: int
    """Length of the senders; 0 for lines."""

    @property
    def size(self) -> int:
        """Length of the block."""
        return HEAD_BYTES + self.senders + self.text

    @property
    def end(self) -> int:
        """The position after its text."""
        return self.position + self.text


def encode_block(position: int, text: bytes, senders: Senders) -> list[bytes]:
    """Return a block, in parts; *senders* is empty for lines."""
    described = orjson.dumps(senders) if senders else b""
    return [_HEAD.pack(position, len(text), len(described)), described, text]


def parse_head(data: bytes, at: int) -> BlockHead:
    """Return the head of the block at offset *at* of *data*."""
    return BlockHead(*_HEAD.unpack_from(data, at))


@dataclass(frozen=True, slots=True)
class SpooledMessage:
    """One message in the spool. Positions are those of its source."""

    start: int
    """The position of its first byte."""

    end: int
    """The position after the newline behind it."""

    sender: str
    """Address that it came from; "" where there is none."""

    cut: bool
    """Whether its rest was cut off."""


def messages_of(head: BlockHead, described: bytes) -> Iterable[SpooledMessage]:
    """Yield the messages of the block with *head*, whose senders are *described*."""
    start = head.position
    for sender, lengths in orjson.loads(described):
        for length in lengths:
            end = start + abs(length)
            yield SpooledMessage(start, end, sender, length < 0)
            start = end
