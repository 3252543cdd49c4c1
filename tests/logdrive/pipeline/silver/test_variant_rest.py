"""The column `rest` as VARIANT: the same values as in JSON text, whatever happens to the table."""

import importlib.util
import json
import shutil
import threading
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import orjson
import polars
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql.types import VariantVal
from pyspark.sql.variant_utils import VariantUtils

from logdrive.cli.pipeline import pipeline
from logdrive.errors import ConfigError
from logdrive.host import faults
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.decode.schema import VARIANT
from logdrive.pipeline.erase import erase_rows
from logdrive.pipeline.publish.publish import Publisher
from logdrive.pipeline.report.page import render_report
from logdrive.pipeline.silver.config import FormatRule, RestType, SilverConfig
from logdrive.pipeline.silver.rebuild import drop_silver
from logdrive.pipeline.tables import join_files, upkeep
from logdrive.pipeline.tables.check_files import check_file
from logdrive.pipeline.tables.failures import UnreadableFileError
from logdrive.pipeline.tables.installed import PackagesMissingError
from logdrive.pipeline.tables.open_table import open_table_as_it_is
from tests.logdrive.pipeline.crashing import crashing_at
from tests.logdrive.pipeline.gold.counted import count, counted_lines, expected_lines
from tests.logdrive.pipeline.segments import lines
from tests.logdrive.pipeline.silver.filled import (
    Stream,
    bronze_rows,
    fill,
    foreign,
    read,
    silver_of,
    silver_rows,
    tables_of,
)
from tests.support.lake import Lake

VARIANTS = SilverConfig(rest="variant")
SECRET = "4111111111111111"
TABLES = {"json", "logfmt", "syslog", "application", "text"}
"""Those with a column `rest`."""
POINTS = [point for point in faults.POINTS if point.startswith("pipeline.silver.")]

Values = dict[tuple[int, int], Any]
"""What `rest` says, by batch and ordinal."""


def order(number: int, **more: object) -> bytes:
    return orjson.dumps({"level": "info", "user": {"id": number, "née": "x"}, **more}) + b"\n"


def grow(stream: Stream, first: int, **more: object) -> None:
    """Add a version of bronze with lines for all `TABLES`; *more* is in 30 of `json`."""
    numbers = range(first, first + 30)
    bare = b'{"level":"warn","message":"nothing more"}\n'
    rfc5424 = b'<165>1 2003-10-11T22:14:15.003Z web app - ID [x iut="%d"] said\n'
    openstack = b"2026-01-02 15:04:05.123 25746 INFO nova.wsgi [req-%d] got it\n"
    foreign(stream.segment, [{"message": f"event {n}", "n": n} for n in numbers])
    stream.add(
        orders=b"".join(order(n, amount=n / 8, **more) + bare for n in numbers),
        metrics=b"".join(b"level=info msg=ok id=%d ratio=0.50\n" % n for n in numbers),
        sys=b"".join(rfc5424 % n for n in numbers),
        nova=b"".join(openstack % n for n in numbers),
        plain=lines("plain", first, 1) * 25,
    )


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    stream = Stream(tmp_path)
    grow(stream, 0)
    return stream


def decoded(variant: Mapping[str, bytes] | None) -> Any:
    if variant is None:
        return None
    return json.loads(VariantUtils.to_json(variant["value"], variant["metadata"]))


def values(directory: Path, table: str) -> Values:
    """Return what `rest` says in *table*, whichever type it has."""
    rows = read(directory, table)
    is_variant = rows.schema.field("rest").type == VARIANT
    return {
        (row["batch"], row["ordinal"]): decoded(row["rest"])
        if is_variant
        else json.loads(row["rest"] or "null")
        for row in rows.select(["batch", "ordinal", "rest"]).to_pylist()
    }


def all_values(directory: Path) -> dict[str, Values]:
    return {table: values(directory, table) for table in sorted(TABLES)}


def types(directory: Path) -> dict[str, str]:
    """Return Delta's type of `rest`, by table."""
    found = {}
    for table in tables_of(directory):
        schema = json.loads(DeltaTable(str(directory / "silver" / table)).schema().to_json())
        of_column = {field["name"]: field["type"] for field in schema["fields"]}
        if "rest" in of_column:
            found[table] = of_column["rest"]
    return found


def test_all_tables_with_a_rest_have_the_values_of_the_text_as_variant(
    tmp_path: Path, stream: Stream
) -> None:
    fill(tmp_path)
    assert types(tmp_path) == dict.fromkeys(TABLES, "string")
    as_text = all_values(tmp_path)
    assert any(value is None for value in as_text["json"].values())

    drop_silver(str(tmp_path), SystemDisk())
    fill(tmp_path, VARIANTS)
    assert types(tmp_path) == dict.fromkeys(TABLES, "variant")
    assert all_values(tmp_path) == as_text
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_python_reads_a_value_without_spark(tmp_path: Path, stream: Stream) -> None:
    fill(tmp_path, VARIANTS)
    said = [VariantVal(**one).toPython() for one in read(tmp_path, "logfmt")["rest"].to_pylist()]
    assert {"id": 29, "ratio": Decimal("0.50")} in said


def test_deltalake_polars_and_duckdb_read_the_same_rows(tmp_path: Path, stream: Stream) -> None:
    fill(tmp_path, VARIANTS)
    place = tmp_path / "silver" / "json"
    ours = values(tmp_path, "json")
    frame = polars.read_delta(str(place)).select("batch", "ordinal", "rest")
    assert {(row[0], row[1]): decoded(row[2]) for row in frame.rows()} == ours
    rows = duckdb.read_parquet(DeltaTable(str(place)).file_uris()).project("batch, ordinal, rest")
    assert {(row[0], row[1]): decoded(row[2]) for row in rows.fetchall()} == ours


def test_a_format_sets_the_type_for_its_table_and_other_tables_keep_text(
    tmp_path: Path, stream: Stream
) -> None:
    config = SilverConfig(
        format=(
            FormatRule(path="*orders*", format="json", table="orders", rest="variant"),
            FormatRule(path="*sys*", format="syslog", rest="variant"),
        )
    )
    fill(tmp_path, config)
    assert {name for name, type_ in types(tmp_path).items() if type_ == "variant"} == {
        "orders",
        "syslog",
    }


def test_a_table_that_is_there_stays_as_it_is_where_the_configuration_says_nothing(
    tmp_path: Path, stream: Stream
) -> None:
    fill(tmp_path, VARIANTS)
    grow(stream, 30)
    fill(tmp_path)
    assert types(tmp_path) == dict.fromkeys(TABLES, "variant")
    assert len(values(tmp_path, "json")) == 120
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


@pytest.mark.parametrize("wanted", ["variant", "text"])
def test_another_type_is_refused_by_its_key_and_a_rebuild_makes_the_tables_anew(
    tmp_path: Path, stream: Stream, wanted: RestType
) -> None:
    had: RestType = "text" if wanted == "variant" else "variant"
    fill(tmp_path, SilverConfig(rest=had))
    before = all_values(tmp_path)
    rule = FormatRule(path="*orders*", format="json", rest=wanted)
    for config, key, count_ in [
        (SilverConfig(rest=wanted), "rest", 5),
        (SilverConfig(format=(FormatRule(path="a"), rule)), "format[1].rest", 1),
    ]:
        with pytest.raises(ConfigError) as error:
            fill(tmp_path, config)
        assert len(error.value.mistakes) == count_
        mistake = error.value.mistakes[-1 if count_ == 1 else 1]
        assert (mistake.key, mistake.value) == (key, f'"{wanted}"')
        assert f"{tmp_path}/silver/json is {had}, and can't become {wanted}" in mistake.remedy
        assert f'write rest = "{had}", or make silver anew' in mistake.remedy
        assert f"pipeline rebuild {tmp_path} --table silver" in mistake.remedy

    path = tmp_path / "silver.toml"
    path.write_text(f'[silver]\nrest = "{wanted}"\n')
    arguments = ["rebuild", str(tmp_path), "--table", "silver", "--config", str(path)]
    done = CliRunner().invoke(pipeline, arguments)
    assert done.exception is None, done.output
    assert set(types(tmp_path).values()) == {"string" if wanted == "text" else "variant"}
    assert all_values(tmp_path) == before


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_anywhere_loses_and_doubles_nothing(
    tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    for part in range(1, 3):
        grow(stream, 60 * part)
        with crashing_at(point, monkeypatch):
            fill(tmp_path, VARIANTS)
        grow(stream, 60 * part + 30)
        fill(tmp_path, VARIANTS)
        assert silver_rows(tmp_path) == bronze_rows(tmp_path)
        assert types(tmp_path) == dict.fromkeys(TABLES, "variant")
    assert len(values(tmp_path, "json")) == 5 * 60


def test_joined_files_and_checkpoints_keep_the_values(
    tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_files, "JOIN_FILES", 4)
    monkeypatch.setattr(upkeep, "JOIN_FILES", 4)
    monkeypatch.setattr(upkeep, "_CHECKPOINT_COMMITS", 7)
    with silver_of(tmp_path, VARIANTS) as tables:
        tables.next_step()
        for part in range(1, 10):
            grow(stream, 30 * part)
            tables.next_step()
    place = tmp_path / "silver" / "json"
    files = open_table_as_it_is(str(place)).files
    assert len(files) < 10
    codecs = {pq.read_metadata(file).row_group(0).column(0).compression for file in files}
    assert "ZSTD" in codecs
    assert list(place.glob("_delta_log/*.checkpoint.parquet"))
    joined = all_values(tmp_path)
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)

    drop_silver(str(tmp_path), SystemDisk())
    fill(tmp_path)
    assert all_values(tmp_path) == joined


def test_keys_that_repeat_are_in_a_files_dictionary(tmp_path: Path, stream: Stream) -> None:
    fill(tmp_path, VARIANTS)
    (file,) = open_table_as_it_is(str(tmp_path / "silver" / "json")).files
    group = pq.read_metadata(file).row_group(0)
    columns = {
        column.path_in_schema: column
        for column in (group.column(n) for n in range(group.num_columns))
    }
    assert "RLE_DICTIONARY" in columns["rest.metadata"].encodings
    assert "RLE_DICTIONARY" not in columns["rest.value"].encodings


def test_an_erasure_leaves_no_file_with_an_erased_value(tmp_path: Path, stream: Stream) -> None:
    grow(stream, 30, card=SECRET)
    fill(tmp_path, VARIANTS)
    before = values(tmp_path, "json")
    assert [one for one in before.values() if one and "card" in one]
    done = erase_rows(
        str(tmp_path),
        f"message LIKE '%{SECRET}%'",
        by="ann",
        why=None,
        clock=SystemClock(),
        disk=SystemDisk(),
    )
    assert done.tables == {"bronze/events": 30, "silver/json": 30}
    assert values(tmp_path, "json") == {
        place: one for place, one in before.items() if not (one and "card" in one)
    }
    assert all(
        SECRET.encode() not in file.read_bytes() and b"card" not in file.read_bytes()
        for file in tmp_path.rglob("*.parquet")
    )
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)
    grow(stream, 60)
    fill(tmp_path, VARIANTS)
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_gold_the_audit_and_the_report_take_the_tables_as_they_are(
    tmp_path: Path, stream: Stream
) -> None:
    fill(tmp_path, VARIANTS)
    count(tmp_path)
    assert counted_lines(tmp_path) == expected_lines(tmp_path)
    verdict = audit(str(tmp_path), full=True)
    assert verdict.complete, verdict.faults
    assert render_report(str(tmp_path), verdict)


def test_a_damaged_variant_is_found_by_its_checksum(tmp_path: Path, stream: Stream) -> None:
    fill(tmp_path, VARIANTS)
    (file,) = open_table_as_it_is(str(tmp_path / "silver" / "json")).files
    group = pq.read_metadata(file).row_group(0)
    column = next(
        one
        for one in (group.column(n) for n in range(group.num_columns))
        if one.path_in_schema == "rest.value"
    )
    at = column.data_page_offset + column.total_compressed_size - 9
    data = bytearray(Path(file).read_bytes())
    data[at] ^= 1
    Path(file).write_bytes(data)
    with pytest.raises(UnreadableFileError, match=Path(file).name):
        check_file(file)


def test_a_copy_in_a_bucket_has_the_values(tmp_path: Path, stream: Stream, lake: Lake) -> None:
    fill(tmp_path, VARIANTS)
    Publisher(str(tmp_path), lake.bucket).publish(threading.Event())
    ours = values(tmp_path, "json")
    shutil.rmtree(tmp_path / "silver")
    copy = DeltaTable(f"{lake.address}/silver/json", storage_options=lake.options)
    rows = copy.to_pyarrow_table().select(["batch", "ordinal", "rest"]).to_pylist()
    assert {(row["batch"], row["ordinal"]): decoded(row["rest"]) for row in rows} == ours


def test_long_messages_stand_beside_variants_in_one_row_group(
    tmp_path: Path, stream: Stream
) -> None:
    long = "".join(map(chr, range(0x20, 0x7F))) * 700
    for n in range(40):
        stream.add(long=order(n, message=f"{n} {long}"))
    fill(tmp_path, VARIANTS)
    rows = read(tmp_path, "json").to_pylist()
    found = {row["message"]: decoded(row["rest"]) for row in rows if "long" in row["path"]}
    assert found == {f"{n} {long}": {"user": {"id": n, "née": "x"}} for n in range(40)}
    for file in open_table_as_it_is(str(tmp_path / "silver" / "json")).files:
        check_file(file)


def test_lines_for_tables_of_variants_wait_while_pyspark_is_missing(
    tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, VARIANTS)
    grow(stream, 30)
    find = importlib.util.find_spec
    with monkeypatch.context() as without:
        without.setattr(
            importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name)
        )
        with pytest.raises(PackagesMissingError, match='rest = "variant" needs pyspark: '):
            fill(tmp_path)
    fill(tmp_path)
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)
