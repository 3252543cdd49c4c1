"""Messages that a client sends, as events of a segment (docs/adr/0026).

A batch is checked and framed as a whole; no line here runs once per message.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel.iggy_loops import frame_messages
from logdrive.model.framing import EVENT_HEAD, Part, event_size
from logdrive.wire.iggy.limits import PAYLOAD_BYTES, R0_SEND_BYTES, USER_HEADERS_BYTES
from logdrive.wire.iggy.messages.envelope import chosen_id
from logdrive.wire.iggy.messages.layouts import fault_error, layout_of
from logdrive.wire.iggy.revision import Revision

_NO_LIMIT: Final = 2**62


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

        Where one has, this costs about 1 µs a message, each time.
        """
        if not self.chosen:
            return None
        view = memoryview(self.events)
        return [chosen_id(view[start + EVENT_HEAD : end]) for start, end in self._spans()]

    def split(self, most: int) -> Iterator["SentBatch"]:
        """Yield the messages, in order, as batches of at most *most* bytes of events each.

        A single event may be longer: `longest` and an event's head say so beforehand.
        """
        if len(self.events) <= most:
            yield self
            return
        start = count = 0
        for at, end in self._spans():
            if end - start > most and at > start:
                yield SentBatch(self.events[start:at], count, self.longest, self.chosen)
                start, count = at, 0
            count += 1
        yield SentBatch(self.events[start:], count, self.longest, self.chosen)

    def _spans(self) -> Iterator[tuple[int, int]]:
        """Yield where each event begins, and where it ends."""
        at = 0
        while at < len(self.events):
            end = at + event_size(self.events, at)
            yield at, end
            at = end

    def select(self, keep: Iterable[int]) -> "SentBatch":
        """Return the batch with only the messages whose indices *keep* has."""
        wanted = frozenset(keep)
        view = memoryview(self.events)
        spans = [span for number, span in enumerate(self._spans()) if number in wanted]
        return SentBatch(
            b"".join([view[at:end] for at, end in spans]),
            len(spans),
            max([end - at - EVENT_HEAD for at, end in spans], default=0),
            self.chosen,
        )


def frame_sent(revision: Revision, batch: Part, count: int | None) -> SentBatch:
    """Return the messages of *batch*, as `SendMessages` has it, with its *count*.

    All is checked before memory is taken. Raises `IggyError`: INVALID_MESSAGES_COUNT,
    PAYLOAD_TOO_BIG, USER_HEADERS_TOO_BIG, MISSING_INDEX, CHECKSUM_MISMATCH …, as the real servers
    do where they answer. User headers are checked, too, though a server of R2C does not: who reads
    the stream in another revision has to understand them.
    """
    layout = layout_of(revision)
    classic = layout == forms.CLASSIC
    fault, events, messages, longest, chosen = frame_messages(
        layout,
        batch,
        -1 if count is None else count,
        PAYLOAD_BYTES,
        R0_SEND_BYTES if classic else _NO_LIMIT,
        USER_HEADERS_BYTES,
        not classic,
    )
    if fault != forms.NONE:
        raise fault_error(revision, fault)
    return SentBatch(events, messages, longest, chosen)
