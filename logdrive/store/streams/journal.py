"""The changes of all streams, durable in a segment of the store itself.

Each is one event of the segment `_system/_controller/0.#epoch.0`, in JSON, appended only where the
one before it ended, so that nothing that was not read can lie between two of them. Now and then the
whole state is put again, and what lies before is cut off: since changes only say what things are
now, it does no harm if a crash comes between.
"""

import asyncio
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final
from uuid import uuid5

import msgspec

from logdrive.errors import StorageError
from logdrive.model.identity import NAMESPACE
from logdrive.model.units import MIB
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.limits import StoreLimits
from logdrive.store.streams.names import OWN
from logdrive.store.streams.state import CatalogState, JournalRecord, Put

SEGMENT: Final = f"{OWN}0.#epoch.0"
_WRITER: Final = uuid5(NAMESPACE, SEGMENT)
_HEAD: Final = struct.Struct(">ii")
_READ: Final = 1 * MIB
_PORTION: Final = 1 * MIB
_LONGEST: Final = StoreLimits().entry
_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(JournalRecord)


class Journal:
    """The journal of one store; one user at a time."""

    def __init__(self, store: Store, *, slack: int = MIB) -> None:
        self._store, self._slack = store, slack
        self._begin = self._end = self._whole = 0

    async def replay(self) -> CatalogState:
        """Return the state as it is durable, once nothing of the journal is pending.

        Raises `StorageError` where it is unreadable.
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

        Raises what `Store.append` raises: replay then, as after a future that fails.
        """
        return self._append(JournalRecord(tuple(puts)))

    def shorten(self, state: CatalogState) -> "list[asyncio.Future[Any]]":
        """Put *state*, which all changes submitted add up to, again, where that makes the journal
        much shorter.
        """
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
        parts = [_HEAD.pack(0, len(body)), body]
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
        self._end += _HEAD.size + len(body)
        return future


def decode_records(data: bytes, offset: int) -> tuple[list[JournalRecord], int]:
    """Return the whole records at the beginning of *data*, which stands at *offset*, and how many
    bytes they are. Raises `StorageError`.
    """
    changes: list[JournalRecord] = []
    place = 0
    while place + _HEAD.size <= len(data):
        kind, length = _HEAD.unpack_from(data, place)
        if kind != 0 or not 0 <= length <= _LONGEST:
            raise StorageError(
                f"{SEGMENT} has no record at offset {offset + place}: something else wrote there"
            )
        if (end := place + _HEAD.size + length) > len(data):
            break
        try:
            changes.append(_decoder.decode(data[place + _HEAD.size : end]))
        except msgspec.DecodeError as error:
            raise StorageError(
                f"{SEGMENT} has no change at offset {offset + place}: {error}"
            ) from error
        place = end
    return changes, place


def _portions(state: CatalogState) -> Iterator[tuple[Put, ...]]:
    """Yield the puts that make *state* from nothing, as many at once as go well into one record."""
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
