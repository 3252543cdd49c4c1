"""The journal: the changes of all streams, durable in a segment of the store itself.

Each record is one event, in JSON, of the segment `_system/_controller/0.#epoch.0`. It is appended
only where the previous one ended, so nothing unread can come between two. From time to time the
whole state is appended again, and what is before it is cut off. A crash in between does no harm:
records only say what things are now.
"""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import uuid5

import msgspec

from logdrive.errors import StorageError
from logdrive.model.framing import EVENT_HEAD, event_head, event_length
from logdrive.model.identity import NAMESPACE
from logdrive.model.units import MIB
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.limits import StoreLimits
from logdrive.store.streams.names import CONTROLLER, SYSTEM
from logdrive.store.streams.state import CatalogState, JournalRecord, Put
from logdrive.wire.pravega.names import segment_name

SEGMENT: Final = segment_name(SYSTEM, CONTROLLER, 0)
_WRITER: Final = uuid5(NAMESPACE, SEGMENT)
_READ: Final = 1 * MIB
"""Bytes read at once during a replay."""
_PORTION: Final = 1 * MIB
"""Bytes after which a record of the whole state is complete."""
_LONGEST: Final = StoreLimits().entry
"""Limit on the bytes of one record."""
_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(JournalRecord)


class Journal:
    """The journal of one store, for one user at a time."""

    def __init__(self, store: Store, *, slack: int = MIB) -> None:
        self._store = store
        # bytes of journal below which it is not shortened
        self._slack = slack
        # the journal's range in its segment
        self._begin = 0
        self._end = 0
        # bytes of the whole state when it was written last
        self._whole = 0

    async def replay(self) -> CatalogState:
        """Return the durable state, once nothing of the journal is pending.

        Raises `StorageError` if it is unreadable.
        """
        try:
            await self._store.number(SEGMENT, _WRITER)
        except NoSuchSegmentError:
            await self._store.create(SEGMENT)
        info = self._store.info(SEGMENT)
        assert info is not None
        state, place, rest = CatalogState(), info.start, b""
        while place + len(rest) < info.length:
            rest += self._store.read(SEGMENT, place + len(rest), _READ)
            changes, size = decode_records(rest, place)
            rest, place = rest[size:], place + size
            for change in changes:
                state.apply_puts(change.puts)
        if rest:
            raise StorageError(f"{SEGMENT} ends within the record at offset {place}")
        self._begin, self._end = info.start, info.length
        return state

    def append_puts(self, puts: Sequence[Put]) -> "asyncio.Future[int]":
        """Append a change.

        Raises what `Store.append` raises. Replay the journal then, and after a future that fails.
        """
        return self._append(JournalRecord(tuple(puts)))

    def shorten(self, state: CatalogState) -> "list[asyncio.Future[Any]]":
        """Append the whole *state* and truncate the journal, if that makes it much shorter.

        *state* must include all changes submitted.
        """
        # so that three of four bytes written are changes
        if self._end - self._begin < max(self._slack, 4 * self._whole):
            return []

        self._begin = self._end
        written: list[asyncio.Future[Any]] = [
            self._append(JournalRecord(puts)) for puts in _portions(state)
        ]
        self._whole = self._end - self._begin
        return [*written, self._store.truncate(SEGMENT, self._begin)]

    def _append(self, change: JournalRecord) -> "asyncio.Future[int]":
        body = _encode(change)
        parts = [event_head(len(body)), body]
        number = max(self._store.submitted_number(SEGMENT, _WRITER), 0) + 1
        future = self._store.append(
            SEGMENT,
            parts,
            writer=_WRITER,
            expected=None,
            number=number,
            events=1,
            expected_offset=self._end,
        )
        self._end += EVENT_HEAD + len(body)
        return future


def decode_records(data: bytes, offset: int) -> tuple[list[JournalRecord], int]:
    """Return the whole records at the beginning of *data*, and their length in bytes.

    *data* is at *offset* of the journal. Raises `StorageError`.
    """
    changes: list[JournalRecord] = []
    at = 0
    while at + EVENT_HEAD <= len(data):
        try:
            length = event_length(data[at : at + EVENT_HEAD])
            if length > _LONGEST:
                raise ValueError(f"a record of {length} bytes")
        except ValueError as error:
            raise StorageError(
                f"{SEGMENT} has no record at offset {offset + at}: something else wrote there"
            ) from error

        if (end := at + EVENT_HEAD + length) > len(data):
            break  # the caller reads more
        try:
            changes.append(_decoder.decode(data[at + EVENT_HEAD : end]))
        except msgspec.DecodeError as error:
            raise StorageError(
                f"{SEGMENT} has no change at offset {offset + at}: {error}"
            ) from error
        at = end
    return changes, at


def _portions(state: CatalogState) -> Iterator[tuple[Put, ...]]:
    """Yield the puts that make *state* from nothing, in portions that fit into one record."""
    portion: list[Put] = []
    size = 0
    for put in state.puts_for_all():
        portion.append(put)
        size += len(_encode(put))
        if size > _PORTION:
            yield tuple(portion)
            portion, size = [], 0
    if portion:
        yield tuple(portion)
