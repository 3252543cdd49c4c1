"""Runs kept for a dialect of another form are encoded again without losing a byte (R2, P1,
adr/0018).
"""

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.delivery.recast import recast
from agent.sources.source import Source
from logdrive.model.limits import RECORD_BYTES
from logdrive.model.numbers import check_in, check_of, number_of, position_of
from logdrive.packs.pack import PackCodec
from logdrive.records.blocks import LINE_PART_BYTES, BlockEncoder, Encoder
from logdrive.records.chunk import TextChunk
from logdrive.records.full_packs import FullPackEncoder
from logdrive.records.full_records import FullEncoder
from logdrive.records.pack_sizes import LARGE_TEXT_BYTES, TEXT_BYTES, PackSizes
from logdrive.records.packed import PackEncoder
from logdrive.records.pairs import PairEncoder, PairList, PairRecords, decode_pairs
from logdrive.records.run_pack import Packing, PackOverflowError, PendingFrame, RunPack
from logdrive.records.runs import REMOVED, GapOrEndMark, Run
from tests.agent.v1_model import file_bytes_of
from tests.support.run_bytes import bytes_of_run

FULL = FullEncoder({"host": {"name": "h"}}, "/a", "0f", lambda: 1_700_000_000_000)
PACKING = Packing(PackCodec.DEFLATE, 1)
ENCODERS: dict[str, Encoder] = {
    "packed": PackEncoder(PACKING),
    "full_packs": FullPackEncoder(FULL, PACKING),
    "block": BlockEncoder(),
    "full": FULL,
    "pairs": PairEncoder([("service", "web")], "h", "/a", "0f"),
}


class _Names:
    """Incarnation ids with one id for all counts."""

    stem: Any = None

    def origin_for(self, count: int) -> Any:
        return count


def gone(runs: list[Run]) -> Source:
    """Return a source whose file is gone, with *runs* and its end record."""
    source: Source = Source(None, _Names(), b"", count=0)  # type: ignore[arg-type]
    source.number = runs[0].previous
    source.add_runs(runs)
    source.end_generation(GapOrEndMark(REMOVED), 0)
    return source


def content(run: Run) -> bytes:
    """Return the file's bytes in a run of any form."""
    if isinstance(run.records, PairRecords | PairList):
        return b"".join(file_bytes_of(decode_pairs(payload)) for payload in run.records)
    return bytes_of_run(run)[0]


odd = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"line\n", b"\xff", "ä€".encode(), b"\0" * 9, b'"\\\x7f'])
).map(b"".join)


def test_parts_of_a_line_stay_parts_for_readers_of_single_events__R2() -> None:
    line = random.Random(8).randbytes(3 * TEXT_BYTES).replace(b"\n", b"")
    kept = ENCODERS["packed"].encode_chunk(TextChunk.from_whole_file(line), 0, 0)
    source = gone(kept)
    recast(source, ENCODERS["full"])
    records = [
        orjson.loads(record)["log"]
        for run in source.unacknowledged.runs
        if run.mark is None
        for record in run.records
    ]
    assert len(kept) > 1
    assert [("flags" in log) for log in records] == [True] * (len(records) - 1) + [False]


def test_a_large_pack_that_is_no_record_becomes_smaller_ones__R8() -> None:
    lines = [random.Random(n).randbytes(200).replace(b"\n", b" ") + b"\n" for n in range(7_000)]
    data, sizes = b"".join(lines), PackSizes()
    sizes.on_packed(LARGE_TEXT_BYTES, 1)
    large = PackEncoder(replace(PACKING, sizes=sizes))
    kept = large.encode_chunk(TextChunk.from_whole_file(data), 0, 0)
    (pack,) = (run.records for run in kept)
    assert isinstance(pack, RunPack)
    with pytest.raises(PackOverflowError):
        PendingFrame(1, pack).encode()
    source = gone(kept)
    sizes.on_overflow()
    recast(source, large)
    runs = [run for run in source.unacknowledged.runs if run.mark is None]
    assert b"".join(map(content, runs)) == data
    assert all(len(record) <= RECORD_BYTES for run in runs for record in run.records)
    assert runs[-1].number == kept[-1].number


@pytest.mark.parametrize("before", ENCODERS)
@pytest.mark.parametrize("after", ENCODERS)
@given(data=odd.filter(bool), start=st.sampled_from([0, 100, 5000]), open_end=st.booleans())
@example(data=b"short\n" + b"x" * (2 * LINE_PART_BYTES) + b"\r\ny\n", start=5000, open_end=False)
@example(data=b"line\n" * 3000, start=0, open_end=False)
@example(data=b"z" * (LINE_PART_BYTES + 5), start=0, open_end=True)
def test_recast_runs_have_the_same_bytes_and_end_at_the_same_number(
    before: str, after: str, data: bytes, start: int, open_end: bool
) -> None:
    head = random.Random(start).randbytes(start)
    chunk = TextChunk(start, head + data, start, start + len(data), open_end)
    kept = ENCODERS[before].encode_chunk(chunk, number_of(start, head), 7)
    source = gone(kept)
    end = source.unacknowledged.runs[-1]
    recast(source, ENCODERS[after])
    runs = [run for run in source.unacknowledged.runs if run.mark is None]
    assert b"".join(map(content, runs)) == data
    assert all(
        isinstance(run.records, PairRecords | PairList) == (after == "pairs") for run in runs
    )
    assert all(
        isinstance(run.records, RunPack) == (after in ("packed", "full_packs")) for run in runs
    )
    assert (runs[0].previous, runs[-1].number, source.unacknowledged.runs[-1]) == (
        kept[0].previous,
        kept[-1].number,
        end,
    )
    assert all(one.number == other.previous for one, other in pairwise(runs))
    assert {run.read_ms for run in runs} == {7}
    for run in runs:
        assert check_in(run.number) in (0, check_of((head + data)[: run.position][-256:]))
        size = sum(8 + len(payload) for payload in run.records)
        assert size <= run.size if isinstance(run.records, RunPack) else size == run.size
        assert run.position - position_of(run.previous) == len(content(run))
