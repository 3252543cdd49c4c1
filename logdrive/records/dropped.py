"""Runs of bytes that the operator's rules left out: they move a source's position, and the audit
counts them (rules R1, A3).
"""

from collections.abc import Sequence
from typing import Literal

from logdrive.model.framing import EVENT_HEAD
from logdrive.model.numbers import position_of
from logdrive.model.records import DATA, block_record
from logdrive.packs.cuts import join_cuts
from logdrive.packs.pack import PackCodec, PackForm
from logdrive.records.run_pack import Packing, RunPack, packed_size
from logdrive.records.runs import Run

DroppedForm = Literal["pack", "block", "nothing"]
"""What says that bytes were left out: a pack, or a block, without text; plain Lumberjack can't."""

_STORED = Packing(PackCodec.STORED, 0)


def make_dropped_run(previous: int, number: int, read_ms: int, form: DroppedForm) -> Run:
    """Return a run without events from one number to a greater one, less than 2 GiB apart."""
    start, end = position_of(previous), position_of(number)
    records: Sequence[bytes] = []
    size = 0
    if form == "pack":
        content = join_cuts([start - end], b"")
        records, size = RunPack(PackForm.CUT_TEXT, content, _STORED), packed_size(len(content))
    elif form == "block":
        records = [block_record(start, end, 0, "", [start - end])]
        size = EVENT_HEAD + len(records[0])
    return Run(
        DATA, previous, number, records, 0, size, read_ms, skipped=end - start, of_events=True
    )
