"""What was stored before there were packs stays readable, for ever (rules R1, R4).

`tests/vectors/stored/before_packs` has a segment that agents and a receiver of that time wrote:
blocks and lean records, full records, foreign batches of Lumberjack v2 and v1, an end; and the
files that they were sent from. The bytes must never change.
"""

import subprocess
from pathlib import Path
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from logdrive.pipeline.bronze.rebuild import rebuild, row_bytes
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.decode.decode import Decoder
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment
from tests.logdrive.pipeline.storing import store
from tests.support.installation import command

STORED = Path(__file__).parents[2] / "vectors/stored/before_packs"
DATA = (STORED / "segment.bin").read_bytes()
FILES = {name: (STORED / f"{name}.txt").read_bytes() for name in ("block", "v2", "v1", "full")}


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    decoder = Decoder(STREAM)
    assert decoder.decode_batches(SEGMENT, 0, DATA)[0] == len(DATA)
    table, batches = decoder.take_tables()
    assert [batch.kind for batch in batches] == [
        "data",
        "foreign",
        "foreign",
        "data",
        "data",
        "end",
    ]
    return table


def test_the_stored_bytes_are_those_of_then() -> None:
    assert (len(DATA), crc32(DATA)) == (13_811, 1_685_902_028)
    headers = [batch.payload for batch in walk_batches(SEGMENT, 0, DATA)]
    assert not [payload for payload in headers if b'"form"' in payload]


@pytest.mark.parametrize("name", FILES)
def test_every_file_comes_back_from_its_rows(rows: pa.Table, name: str) -> None:
    its = rows.filter(pc.equal(rows["path"].cast(pa.string()), f"/var/log/web/frontend/{name}.log"))
    assert b"".join(row_bytes(its).to_pylist()) == FILES[name]
    assert set(its["flag"].to_pylist()) == {None}
    if name in ("block", "full"):
        assert list(rebuild(its)) == [(0, FILES[name])]


def test_rows_name_the_forms_that_they_were_stored_in(rows: pa.Table) -> None:
    forms = set(zip(rows["path"].to_pylist(), rows["form"].to_pylist(), strict=True))
    assert {(Path(path).stem, form) for path, form in forms} == {
        ("block", "block"),
        ("block", "lean"),
        ("full", "full"),
        ("v1", "foreign"),
        ("v2", "foreign"),
    }


def test_store_cat_prints_every_file(tmp_path: Path) -> None:
    uri = store(tmp_path, Segment(data=bytearray(DATA)))
    printed = subprocess.run(
        command("store", "cat", uri), capture_output=True, timeout=60, check=True
    )
    # a last line that lacks its newline waits for more of it, and comes at the end
    whole = [text[: text.rfind(b"\n") + 1] for text in FILES.values()]
    unfinished = [text[text.rfind(b"\n") + 1 :] for text in FILES.values()]
    assert printed.stdout == b"".join([*whole, *unfinished])
