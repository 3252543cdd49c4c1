"""Checkpoints of a view: what a start need not walk over again, and what truncation would take.

They are events of the segment `_system/_s2-index/SEGMENT` (docs/adr/0024), each with the rows that
are new since the one before; or, if it is *whole*, with all. They are written after what they tell
of is durable, so they are never ahead of it.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid5

from logdrive.errors import StorageError
from logdrive.model.framing import frame_event, unframe_events
from logdrive.model.identity import NAMESPACE
from logdrive.model.units import KIB
from logdrive.services.numbering.positions import Position, Positions
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError
from logdrive.store.streams.names import S2_INDEX, SYSTEM

PREFIX: Final = f"{SYSTEM}/{S2_INDEX}/"
"""Prefix of the names of the segments that have checkpoints."""

_HEAD: Final = struct.Struct(">4sB?IqQQQQBI")
_MAGIC: Final = b"LS2I"
_VERSION: Final = 1
_ROW: Final = struct.Struct(">QQQ")
_SLACK: Final = 64 * KIB
"""Bytes of checkpoints below which they are not shortened."""


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """A view as it was at *end*: fencing token, trim point and rows.

    *incarnation* is that of the segment, *events* what the store counted in it up to *end*, -1 if
    that is not known.
    """

    incarnation: int
    end: Position
    events: int
    token: str
    trim_point: int
    rows: Positions


def encode_checkpoint(checkpoint: IndexSnapshot, rows: Sequence[Position], *, whole: bool) -> bytes:
    """Return the payload of an event with *rows* of the checkpoint."""
    token = checkpoint.token.encode()
    head = _HEAD.pack(
        _MAGIC,
        _VERSION,
        whole,
        checkpoint.incarnation,
        checkpoint.events,
        *checkpoint.end,
        checkpoint.trim_point,
        len(token),
        len(rows),
    )
    return b"".join((head, token, *(_ROW.pack(*row) for row in rows)))


def decode_checkpoint(payload: bytes, before: Positions) -> IndexSnapshot:
    """Return the checkpoint in *payload*; unless it is whole, its rows are added to those *before*.

    Raises ValueError if it is none.
    """
    if len(payload) < _HEAD.size:
        raise ValueError(f"{len(payload)} bytes of a checkpoint")
    magic, version, whole, incarnation, events, offset, seq_num, timestamp, trim, size, count = (
        _HEAD.unpack_from(payload)
    )
    rows_at = _HEAD.size + size
    if magic != _MAGIC or version != _VERSION or len(payload) != rows_at + count * _ROW.size:
        raise ValueError("not a checkpoint")
    rows = Positions(()) if whole else before
    for row in _ROW.iter_unpack(payload[rows_at:]):
        rows.add(Position(*row))
    return IndexSnapshot(
        incarnation,
        Position(offset, seq_num, timestamp),
        events,
        payload[_HEAD.size : rows_at].decode(),
        trim,
        rows,
    )


class Checkpoints:
    """The checkpoints of one segment, for one user at a time."""

    def __init__(self, store: Store, segment: str) -> None:
        self._store = store
        self._segment = segment
        self._name = PREFIX + segment
        self._writer = uuid5(NAMESPACE, self._name)
        # the last row that was written
        self._written_to = -1
        # bytes of the last whole checkpoint
        self._whole_bytes = 0
        # whether the next one must be whole
        self._must_be_whole = True

    def load(self) -> IndexSnapshot | None:
        """Return the last durable checkpoint; None if there is none that fits the segment.

        Raises `StorageError` if they are damaged.
        """
        info = self._store.info(self._name)
        of = self._store.info(self._segment)
        if info is None or of is None or info.length == info.start:
            return None
        try:
            events = unframe_events(
                self._store.read(self._name, info.start, info.length - info.start)
            )
            checkpoint: IndexSnapshot | None = None
            for event in events:
                before = checkpoint.rows if checkpoint else Positions(())
                checkpoint = decode_checkpoint(event, before)
        except (ValueError, struct.error) as error:
            raise StorageError(
                f"{self._name} is not what was written: {error}; delete that segment, and the "
                "index is made again"
            ) from error
        # one of a deleted segment of the same name
        if checkpoint is None or checkpoint.incarnation != self._store.incarnation(self._segment):
            return None
        self._written_to = checkpoint.rows.last.offset if len(checkpoint.rows) else -1
        self._must_be_whole = False
        self._whole_bytes = info.length - info.start
        return checkpoint

    async def write(self, checkpoint: IndexSnapshot, *, whole: bool = False) -> None:
        """Make *checkpoint* durable, with all rows if the first ones changed (*whole*).

        Its rows may grow meanwhile: they are those of the view. Costs what the new rows cost.
        Raises `StorageError`, `TransientError`.
        """
        info = self._store.info(self._name)
        whole |= (
            self._must_be_whole
            or info is None
            or info.length - info.start > max(_SLACK, 4 * self._whole_bytes)
        )
        # before anything is awaited, since rows are added meanwhile
        rows = checkpoint.rows.behind(-1 if whole else self._written_to)
        if info is None:
            await self._store.create(self._name)
        begin = self._store.submitted_length(self._name)
        event = frame_event(encode_checkpoint(checkpoint, rows, whole=whole))
        await self._store.room(len(event))
        if self._store.info(self._segment) is None:  # the stream was deleted meanwhile
            raise NoSuchSegmentError(self._segment)
        self._must_be_whole = True  # until this one is durable
        await self._store.append(
            self._name,
            event,
            writer=self._writer,
            expected=None,
            number=begin + len(event),
            events=1,
        )
        self._must_be_whole = False
        if rows:
            self._written_to = rows[-1].offset
        if whole:
            self._whole_bytes = len(event)
            if begin:
                await self._store.truncate(self._name, begin)

    async def delete(self) -> None:
        """Delete all checkpoints."""
        if self._store.info(self._name) is not None:
            await self._store.delete(self._name)
