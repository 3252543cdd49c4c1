"""What is unpacked becomes the rows that the packs would be (rules R1, R8)."""

from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.model.numbers import position_of
from logdrive.pipeline.bronze.rebuild import rebuild
from logdrive.wire.lumberjack.run_reader import RunReceived
from receiver.config import Unpack
from receiver.dialects.unpacking.unpack import unpack_run
from tests.logdrive.pipeline.decode.test_packs import decoded, rows_alike
from tests.logdrive.pipeline.segments import Segment
from tests.receiver.dialects.unpacking.runs import of_cut_text, of_records, of_text

PIECES = [b"a\n", b"\n", b"b\r\n", "é€".encode(), b"\xff\xfe\n", b'"\\\x00\n']
patient = settings(deadline=None, max_examples=50)  # the first example loads Arrow's kernels
texts = st.lists(st.sampled_from(PIECES), min_size=1, max_size=60).map(b"".join)


def stored(runs: list[RunReceived], form: str | None = None) -> Segment:
    """Return a segment with *runs*, which are packs of *form* if that is given."""
    segment = Segment()
    for each in runs:
        run = each.run
        segment.data_batch(
            "a",
            position_of(run.previous),
            position_of(run.number),
            each.payloads,
            run.events,
            skipped=run.skipped,
            **({} if form is None else {"form": form}),
        )
    return segment


def unpacked(packed: RunReceived, form: Unpack) -> Segment:
    return stored(list(unpack_run(packed, form, b'{"host":"h","path":"/a"}', UUID(int=1))))


@patient
@given(text=texts, start=st.integers(0, 500))
def test_r8_rows_of_blocks_are_those_of_the_pack(text: bytes, start: int) -> None:
    packed = of_text(text, start)
    table, batches = decoded(unpacked(packed, "blocks"))
    assert rows_alike(table) == rows_alike(decoded(stored([packed], "text"))[0])
    assert [batch.rows for batch in batches] == [batch.events for batch in batches]


@patient
@given(text=texts)
def test_r2_rows_of_full_records_have_the_bytes_of_the_pack(text: bytes) -> None:
    table, batches = decoded(unpacked(of_text(text), "full"))
    assert b"".join(piece for _, piece in rebuild(table)) == text
    assert set(table["form"].to_pylist()) == {"full"}
    assert [batch.rows for batch in batches] == [batch.events for batch in batches]


@pytest.mark.parametrize("form", ["blocks", "full"])
@patient
@given(data=st.data())
def test_r1_rows_of_cut_text_are_those_of_the_pack(form: Unpack, data: st.DataObject) -> None:
    text = data.draw(texts)
    cuts = data.draw(st.sets(st.integers(1, max(1, len(text) - 1)), max_size=6))
    bounds = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    lengths: list[int] = []
    for begin, end in pairwise(bounds):
        lengths += [-data.draw(st.integers(1, 300))] if data.draw(st.booleans()) else []
        lengths.append(end - begin)

    packed = of_cut_text(text, lengths, start=7)
    table, batches = decoded(unpacked(packed, form))
    whole, (one,) = decoded(stored([packed], "text"))
    columns = ["start", "end", "original", "message"]
    assert table.select(columns).to_pylist() == whole.select(columns).to_pylist()
    assert sum(batch.skipped for batch in batches) == one.skipped
    assert [span for batch in batches for span in batch.dropped] == one.dropped


def test_r8_rows_of_records_are_those_of_the_pack() -> None:
    records = [
        b'{"@timestamp":"2026-01-01T00:00:00Z","log":{"offset":%d},"message":"line","n":1}' % at
        for at in range(10, 10 + 5 * 2500, 5)
    ]
    packed = of_records(records, 10, 10 + 5 * 2500)
    table, batches = decoded(unpacked(packed, "blocks"))
    assert len(batches) > 2
    assert rows_alike(table) == rows_alike(decoded(stored([packed], "records"))[0])
