"""Records that no batch can hold, in pieces, with the reason: what the dead-letter stream is given (rule R3).

Each piece is a record of its own: `{"dead_letter":{"id","reason","bytes","piece","pieces"},"original_base64"}`. The pieces
with one id, in order, are the record.
"""

import base64
from collections.abc import Iterator
from uuid import UUID

import orjson

from logdrive.limits import KIB, RECORD_BYTES

_PIECE_BYTES = 512 * KIB  # 683 KiB in Base64


def dead_letters(payload: bytes, letter: UUID) -> Iterator[bytes]:
    """Yield the records that stand for *payload*, a record over the limit."""
    starts = range(0, len(payload), _PIECE_BYTES)
    for number, start in enumerate(starts, 1):
        about = {
            "id": str(letter),
            "reason": f"a record of {len(payload)} bytes, over {RECORD_BYTES}",
            "bytes": len(payload),
            "piece": number,
            "pieces": len(starts),
        }
        piece = base64.b64encode(payload[start : start + _PIECE_BYTES]).decode()
        yield orjson.dumps({"dead_letter": about, "original_base64": piece})
