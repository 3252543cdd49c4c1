"""Packs the full records of a run, for receivers that take packs (rule R8)."""

from dataclasses import replace
from functools import partial
from typing import Final

from logdrive.model.limits import RECORD_BYTES
from logdrive.packs.pack import PACK_HEAD, PackForm
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from logdrive.records.full_records import FullEncoder, records_as_events
from logdrive.records.run_pack import Packing, RunPack, packed_size
from logdrive.records.runs import Run

_SURE_BYTES: Final = RECORD_BYTES - PACK_HEAD
"""Records of no more than this fit a record even where they can't be compressed."""


class FullPackEncoder:
    """Encodes the lines of one file as packs of full records."""

    chunk_bytes = longest_line = CHUNK_BYTES

    def __init__(self, encoder: FullEncoder, packing: Packing) -> None:
        self._encoder = encoder  # makes the records
        self._packing = packing  # how they are compressed

    def encode_chunk(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, or for its beginning if they would be too many."""
        runs = self._encoder.encode_chunk(chunk, previous, read_ms)
        return [pack_records(run, self._packing) for run in runs]


def pack_records(run: Run, packing: Packing) -> Run:
    """Return *run* with its records packed; unchanged if their pack would not be a record."""
    pack = RunPack(PackForm.RECORDS, partial(records_as_events, run.records), packing)
    if run.size > _SURE_BYTES and len(pack.pack) > RECORD_BYTES:
        return run
    return replace(run, records=pack, size=packed_size(run.size))
