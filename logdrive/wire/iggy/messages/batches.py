"""Messages that a client sends, as events of a segment (docs/adr/0026).

A batch is checked and framed as a whole; nothing runs once per message here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from logdrive.kernel.iggy_loops import frame_messages
from logdrive.kernel.iggy_plain import FAULTLESS, Fault
from logdrive.model.framing import EVENT_HEAD, Part, event_size
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import PAYLOAD_BYTES, USER_HEADERS_BYTES
from logdrive.wire.iggy.messages.envelope import chosen_id
from logdrive.wire.iggy.messages.layouts import layout_of
from logdrive.wire.iggy.revision import Revision

CLASSIC_PAYLOADS_BYTES: Final = 10 * 1024 * 1024
"""Payloads of one send up to revision R1, all together."""


@dataclass(frozen=True, slots=True)
class SentBatch:
    """Messages of one send as *events*, Pravega events back to back, ready for the segment."""

    events: bytes
    # messages, and events
    count: int
    # bytes of the longest event's payload, as it is stored
    longest: int
    # whether a message has an id that its client chose
    chosen: bool

    @property
    def ids(self) -> list[int] | None:
        """The id of each message, 0 where none was chosen; None if none has a chosen one.

        Costs about 0.5 µs a message where one has.
        """
        if not self.chosen:
            return None
        return [chosen_id(self.events, start, end) for start, end in _payloads(self.events)]


def frame_sent(revision: Revision, batch: Part, count: int | None) -> SentBatch:
    """Return the messages of *batch*, the bytes of a send that follow its partitioning.

    *count* is the number of messages that the request announces, None up to R1. All is checked
    before memory is taken. Raises `IggyError` with the reason that the real servers give, where
    they give one.
    """


def select(batch: SentBatch, keep: Iterable[int]) -> SentBatch:
    """Return *batch* with only the messages *keep*: indices in rising order."""
