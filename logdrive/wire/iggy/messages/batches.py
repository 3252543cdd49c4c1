"""Messages that a client sends, as events of a segment (docs/adr/0026).

A batch is checked and framed as a whole; no line here runs once per message, but where messages
have ids, or user headers.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel.iggy_loops import frame_messages
from logdrive.kernel.loops import walk_plain
from logdrive.model.framing import EVENT_HEAD, Part, event_size
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import (
    MESSAGES,
    PAYLOAD_BYTES,
    R0_SEND_BYTES,
    USER_HEADERS_BYTES,
)
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
        start = 0
        while start < len(self.events):
            end, count = self._whole_within(start, most)
            yield SentBatch(self.events[start:end], count, self.longest, self.chosen)
            start = end

    def _whole_within(self, start: int, most: int) -> tuple[int, int]:
        """Return where whole events of up to *most* bytes from *start* on end, and their count.

        It is one event at least. Plain events take no Python each: a send may have millions.
        """
        within = memoryview(self.events)[: start + most]
        at, count = walk_plain(within, start, self.count)
        while at < len(self.events):
            # one in an envelope, or the first that is too long
            end = at + event_size(self.events, at)
            if end - start > most and count:
                break
            more_end, more = walk_plain(within, end, self.count)
            at, count = max(end, more_end), count + 1 + more
        return at, count

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
    TOO_MANY_MESSAGES, PAYLOAD_TOO_BIG, USER_HEADERS_TOO_BIG, MISSING_INDEX, CHECKSUM_MISMATCH …, as
    the real servers do where they answer. User headers are checked, too, though a server of R2C
    does not: who reads the stream in another revision has to understand them.
    """
    _check_count(count)
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
    _check_count(messages)
    return SentBatch(events, messages, longest, chosen)


def _check_count(count: int | None) -> None:
    if count is not None and count > MESSAGES:
        raise IggyError(
            Reason.TOO_MANY_MESSAGES, f"a send of {count} messages; it may have {MESSAGES}"
        )
