"""Dead letters: events over the limit of all (`EVENT_BYTES`), in pieces, for the dead-letter stream
(rule R7).

Each piece is a record of its own,
`{"dead_letter":{"id","reason","bytes","piece","pieces"},"original_base64"}`. The pieces with the
same id, in order, are the event.
"""

import base64
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import orjson

from logdrive.model.limits import EVENT_BYTES
from logdrive.model.units import KIB

_PIECE_BYTES = 512 * KIB  # 683 KiB in Base64


def dead_letter_records(payload: bytes, letter: UUID) -> Iterator[bytes]:
    """Yield the records of *payload*, an event over the limit, under the id *letter*."""
    starts = range(0, len(payload), _PIECE_BYTES)
    for number, start in enumerate(starts, 1):
        about = {
            "id": str(letter),
            "reason": f"an event of {len(payload)} bytes, over {EVENT_BYTES}",
            "bytes": len(payload),
            "piece": number,
            "pieces": len(starts),
        }
        piece = base64.b64encode(payload[start : start + _PIECE_BYTES]).decode()
        yield orjson.dumps({"dead_letter": about, "original_base64": piece})


class DeadLetterTally:
    """Counts the dead letters of one connection. The first is logged, and the total at the end."""

    def __init__(self) -> None:
        self._count = 0
        self._bytes = 0  # of all of them

    def count_letter(self, log: Any, size: int) -> None:
        """Count an event of *size* bytes; log the first."""
        self._count += 1
        self._bytes += size
        if self._count == 1:
            reason = f"longer as JSON than an event may be, {EVENT_BYTES} bytes"
            log.warning(
                "an event went to the dead letters: see `logdrive store dead-letters`",
                bytes=size,
                reason=reason,
            )

    def log_total(self, log: Any) -> None:
        """Log the totals if there was more than one; to be called when the connection ends."""
        if self._count > 1:
            log.warning(
                "events of this connection went to the dead letters",
                count=self._count,
                bytes=self._bytes,
            )
