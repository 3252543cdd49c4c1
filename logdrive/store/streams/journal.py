"""The journal of all streams: the segment `_system/_controller/0.#epoch.0` of the store itself."""

from collections.abc import Sequence
from typing import Final

import msgspec

from logdrive.model.units import MIB
from logdrive.store.engine import Store
from logdrive.store.journal import SegmentJournal, decode_journal
from logdrive.store.streams.names import CONTROLLER, SYSTEM
from logdrive.store.streams.state import CatalogState, JournalRecord, Put
from logdrive.wire.pravega.names import segment_name

SEGMENT: Final = segment_name(SYSTEM, CONTROLLER, 0)
_decoder: Final = msgspec.json.Decoder(JournalRecord)


class Journal(SegmentJournal[CatalogState, Put]):
    """The journal of the streams of one store, for one user at a time."""

    def __init__(self, store: Store, *, slack: int = MIB) -> None:
        super().__init__(store, SEGMENT, new_state=CatalogState, decode=_decode, slack=slack)


def decode_records(data: bytes, offset: int) -> tuple[list[Sequence[Put]], int]:
    """Return the puts of the whole records at the beginning of *data*, and their length in bytes.

    *data* is at *offset* of the journal. Raises `StorageError`.
    """
    return decode_journal(SEGMENT, data, offset, _decode)


def _decode(data: bytes) -> Sequence[Put]:
    return _decoder.decode(data).puts
