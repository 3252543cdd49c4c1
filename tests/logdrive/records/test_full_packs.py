"""Full records of a run become one pack, whose records are those that it would have sent (R8)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.limits import RECORD_BYTES
from logdrive.model.numbers import position_of
from logdrive.model.records import DATA
from logdrive.packs.pack import PackCodec
from logdrive.records.chunk import TextChunk
from logdrive.records.full_packs import FullPackEncoder, pack_records
from logdrive.records.full_records import FullEncoder
from logdrive.records.run_pack import Packing, RunPack
from logdrive.records.runs import Run
from tests.support.packs import unpacked

_FULL = FullEncoder({"host": {"name": "h"}}, "/a", "0f", lambda: 1_700_000_000_000)
_PACKING = Packing(PackCodec.DEFLATE, 1)

_LINES = st.lists(
    st.sampled_from([b"line\n", b"\n", b"\xff\n", b"cr\r\n", "ä€".encode(), b"\0" * 9, b'"\x7f'])
).map(b"".join)


@given(_LINES.filter(bool))
def test_a_pack_holds_the_records_that_lines_become__R1_R8(text: bytes) -> None:
    chunk = TextChunk.from_whole_file(text)
    open_runs = _FULL.encode_chunk(chunk, 0, 7)
    runs = FullPackEncoder(_FULL, _PACKING).encode_chunk(chunk, 0, 7)
    for run, open_run in zip(runs, open_runs, strict=True):
        pack = run.records
        assert isinstance(pack, RunPack)
        assert pack.records == list(open_run.records)
        header = {
            "form": "records",
            "previous": position_of(run.previous),
            "position": run.position,
            "events": run.events,
            "skipped": 0,
        }
        ((_, first), *others) = unpacked(pack.pack, header).pieces
        data = first + b"".join(piece for _, piece in others)
        assert data == text[position_of(run.previous) : run.position]
        assert 8 + len(pack.pack) <= run.size
        assert (run.number, run.read_ms) == (open_run.number, 7)


def test_records_that_no_pack_holds_travel_in_the_open__R3() -> None:
    noise = random.Random(3).randbytes(RECORD_BYTES // 2)
    run = Run(DATA, 0, 1 << 16, [noise, noise[::-1]], 2, RECORD_BYTES + 16, 0)
    assert pack_records(run, _PACKING) is run


@pytest.mark.parametrize("codec", PackCodec)
def test_records_that_are_much_alike_are_packed_though_they_are_many__R3(codec: PackCodec) -> None:
    run = Run(DATA, 0, 1 << 16, [b"x" * 400_000] * 2, 2, 800_016, 0)
    packed = pack_records(run, Packing(codec, 1))
    if codec is PackCodec.STORED:
        assert packed is run
    else:
        assert len(packed.records[0]) <= RECORD_BYTES
