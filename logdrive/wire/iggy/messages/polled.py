"""Stored events as the messages of a poll's reply."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from logdrive.kernel import iggy_forms as forms
from logdrive.kernel.iggy_loops import encode_messages
from logdrive.model.framing import EVENT_HEAD, Part, event_size
from logdrive.wire.iggy.messages.envelope import StoredMessage, encode_enveloped
from logdrive.wire.iggy.messages.layouts import layout_of
from logdrive.wire.iggy.revision import Revision

_NO_LIMIT: Final = 2**62


class StoredEvents(NamedTuple):
    """Whole *events*, back to back: those of one append, or some of them."""

    events: Part
    # of the first
    offset: int
    # when they were appended, µs since 1970
    time_us: int


class ForeignMessage(NamedTuple):
    """What a payload is that another protocol made: user *headers* (R2C's form) and *payload*."""

    headers: bytes
    payload: bytes


Foreign = Callable[[bytes], ForeignMessage | None]
"""Called with a payload that begins with 0xff and is none of our envelopes.

None: it is shown as it is.
"""


@dataclass(frozen=True, slots=True)
class EncodedPoll:
    """*count* messages, with consecutive offsets: `Polled.batches`, in parts."""

    count: int
    batches: tuple[bytes, ...]


class NotStoredError(ValueError):
    """Bytes that should be stored events are none."""


def encode_polled(
    revision: Revision,
    parts: Iterable[StoredEvents],
    *,
    partition: int,
    id_seed: bytes,
    most: int,
    limit: int,
    foreign: Foreign,
) -> EncodedPoll:
    """Return the messages that *parts* are, one after the other: at most *most*.

    *limit* is in bytes of the messages; the first is returned even if it is longer. *partition*
    counts from 0. *id_seed*, 8 bytes that are not all zero, is the first half of the ids of
    messages without a chosen one; the other half is the offset. *parts* is read only as far as it
    is needed; what is not whole at a part's end ends the poll. Raises `NotStoredError`.
    """
    seed = int.from_bytes(id_seed, "little")
    if len(id_seed) != 8 or not seed:
        raise ValueError("a seed of ids has 8 bytes that are not all zero")
    poll = _GrowingPoll(layout_of(revision), partition, seed, most, limit, foreign)
    if most > 0:
        for part in parts:
            if not poll.add(part):
                break
    return EncodedPoll(poll.count, tuple(poll.batches))


class _GrowingPoll:
    """A poll's messages, which grow up to its limits."""

    def __init__(
        self, layout: int, partition: int, seed: int, most: int, limit: int, foreign: Foreign
    ) -> None:
        self.count = 0
        self.batches: list[bytes] = []
        self._layout, self._partition, self._seed = layout, partition, seed
        self._most, self._limit, self._foreign = most, limit, foreign

    def add(self, part: StoredEvents) -> bool:
        """Add the events of *part*; return whether there is room for more."""
        events, at, offset = part.events, 0, part.offset
        while True:
            count, at, why = self._add(events, at, offset, part.time_us)
            offset += count
            if why == forms.OTHER:
                end = at + event_size(events, at)
                event = self._translate(bytes(events[at + EVENT_HEAD : end]))
                count, _, why = self._add(event, 0, offset, part.time_us)
                if not count:
                    return False
                offset += count
                at = end
            elif why == forms.OVER:
                return at == len(events) and self.count < self._most
            elif why == forms.BROKEN:
                raise NotStoredError(f"no event at message {offset}")
            elif not count or self._layout != forms.RECORDS:
                return False

    def _add(self, events: Part, at: int, offset: int, time_us: int) -> tuple[int, int, int]:
        """Add messages up to a limit; return how many, where the next begins, and why."""
        left = self._most - self.count
        for most, limit in ((left, self._limit), (min(left, 1), _NO_LIMIT)):
            encoded, end, count, why = encode_messages(
                self._layout,
                False,
                events,
                at,
                offset,
                time_us,
                time_us,
                self._seed,
                self._partition,
                most,
                limit,
            )
            # only the first message of all may be longer than the limit
            if count or why != forms.FULL or self.count:
                break
        if count:
            self.batches.append(encoded)
            self.count += count
            self._limit -= len(encoded)
        return count, end, why

    def _translate(self, payload: bytes) -> bytes:
        """Return the event, with an envelope, of a *payload* that another protocol made."""
        found = self._foreign(payload)
        headers, payload = (b"", payload) if found is None else found
        return encode_enveloped(StoredMessage(payload, headers))
