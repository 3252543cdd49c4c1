"""A table goes along with new columns, and is bound to one format and one type a column."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import polars
import pytest

from logdrive.errors import ConfigError, StorageError
from logdrive.host import faults
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.erase import erase_rows
from logdrive.pipeline.silver.balance import silver_balance
from logdrive.pipeline.silver.config import FormatRule, SilverConfig
from logdrive.pipeline.silver.decisions import FormatDecision, NewSource, decision_rows
from logdrive.pipeline.silver.schema import SOURCES_SCHEMA
from logdrive.pipeline.silver.step_note import read_step_note
from logdrive.pipeline.tables import join_files, upkeep
from logdrive.pipeline.tables.files import write_file
from logdrive.pipeline.tables.open_table import open_table, open_table_as_it_is
from tests.logdrive.pipeline.crashing import crashing_at
from tests.logdrive.pipeline.silver.filled import (
    Stream,
    access_lines,
    bronze_rows,
    fill,
    read,
    silver_of,
    silver_rows,
)

USER: Mapping[str, str] = {"user": "string"}
BOTH: Mapping[str, str] = {"user": "string", "amount": "float"}


def orders(
    columns: Mapping[str, str], table: str = "orders", line_format: str = "json"
) -> SilverConfig:
    rule = FormatRule(path="*/o*.log", format=line_format, table=table, columns=dict(columns))
    return SilverConfig(format=(rule,))


def order(amount: float) -> bytes:
    return orjson.dumps({"user": "1", "amount": amount}) + b"\n"


def values(directory: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of `orders`, by file."""
    rows = read(directory, "orders").sort_by([("path", "ascending"), ("start", "ascending")])
    return list(zip(*(rows[name].to_pylist() for name in columns), strict=True))


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    """One file was read with a column `user`."""
    stream = Stream(tmp_path)
    stream.add(o1=order(1.5))
    fill(tmp_path, orders(USER))
    return stream


def test_a_new_column_is_null_in_old_rows_and_has_the_values_of_new_sources(
    tmp_path: Path, stream: Stream
) -> None:
    stream.add(o2=order(2.5))
    fill(tmp_path, orders(BOTH))
    assert values(tmp_path, "user", "amount", "rest") == [
        ("1", None, '{"amount":1.5}'),
        ("1", 2.5, None),
    ]


def test_a_column_that_is_no_longer_named_stays_and_its_values_go_to_rest(
    tmp_path: Path, stream: Stream
) -> None:
    stream.add(o2=order(2.5))
    fill(tmp_path, orders({"amount": "float"}))
    # in between another table was written last, so that this one is opened otherwise
    stream.add(other=b"a line\n")
    fill(tmp_path)
    stream.add(o3=order(3.5))
    fill(tmp_path, orders({}))
    assert values(tmp_path, "user", "amount", "rest") == [
        ("1", None, '{"amount":1.5}'),
        (None, 2.5, '{"user":"1"}'),
        (None, None, '{"user":"1","amount":3.5}'),
    ]
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_sources_decided_before_and_after_a_new_column_are_in_one_step(
    tmp_path: Path, stream: Stream
) -> None:
    stream.add(o1=order(1.75), o2=order(2.5))
    (step,) = fill(tmp_path, orders(BOTH))
    assert step.rows == 2
    stream.add(o1=order(1.875), o2=order(2.75))
    fill(tmp_path, orders(BOTH))
    assert values(tmp_path, "amount", "rest") == [
        (None, '{"amount":1.5}'),
        (None, '{"amount":1.75}'),
        (None, '{"amount":1.875}'),
        (2.5, None),
        (2.75, None),
    ]
    balance = silver_balance(str(tmp_path))
    assert balance is not None
    assert balance.adds_up


@pytest.mark.parametrize(
    "point", [point for point in faults.POINTS if point.startswith("pipeline.silver.")]
)
def test_a_crash_while_a_column_is_added_loses_nothing(
    tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    stream.add(o2=order(2.5))
    with crashing_at(point, monkeypatch):
        fill(tmp_path, orders(BOTH))
    fill(tmp_path, orders(BOTH))
    assert values(tmp_path, "user", "amount") == [("1", None), ("1", 2.5)]


def test_files_of_different_columns_are_joined_with_all_of_them(
    tmp_path: Path, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(join_files, "JOIN_FILES", 4)
    monkeypatch.setattr(upkeep, "JOIN_FILES", 4)
    with silver_of(tmp_path, orders(BOTH)) as tables:
        for number in range(2, 7):
            stream.add(**{f"o{number}": order(number)})
            tables.next_step()
    assert read(tmp_path, "orders").num_rows == 6
    files = open_table_as_it_is(str(tmp_path / "silver" / "orders")).files
    assert len(files) < 6
    assert values(tmp_path, "amount") == [(None,), *((float(n),) for n in range(2, 7))]


def test_another_type_of_a_column_is_refused_before_anything_is_read(
    tmp_path: Path, stream: Stream
) -> None:
    stream.add(o2=order(2.5))
    fill(tmp_path, orders(BOTH))
    stream.add(o3=order(3.5))
    with pytest.raises(ConfigError) as error:
        fill(tmp_path, orders({"user": "string", "amount": "int"}))
    (mistake,) = error.value.mistakes
    assert (mistake.key, mistake.value) == ("format[0].columns.amount", '"int"')
    assert f"{tmp_path}/silver/orders has the type float, and can't become int" in mistake.remedy
    assert "name another `table`" in mistake.remedy
    assert f"pipeline rebuild {tmp_path} --table silver" in mistake.remedy
    fill(tmp_path, orders(BOTH))
    assert silver_rows(tmp_path) == bronze_rows(tmp_path)


def test_a_column_of_a_source_without_rows_yet_counts(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.add(o1=b"no object\n")
    fill(tmp_path, orders({"amount": "string"}))
    assert not (tmp_path / "silver" / "orders").exists()
    with pytest.raises(ConfigError, match="has the type string"):
        fill(tmp_path, orders({"amount": "float"}))


def test_a_table_that_another_format_has_made_is_refused(tmp_path: Path, stream: Stream) -> None:
    with pytest.raises(ConfigError) as error:
        fill(tmp_path, orders(USER, line_format="logfmt"))
    (mistake,) = error.value.mistakes
    assert (mistake.key, mistake.value) == ("format[0].table", '"orders"')
    assert "silver/orders has lines of the format json" in mistake.remedy
    assert "name another `table`" in mistake.remedy


def give_to_json(directory: Path, table: str) -> None:
    """Let a source be decided whose json lines go to *table*, as earlier versions allowed it."""
    lines: Any = None
    new = NewSource(("a source", None), None, "/o.log", lines, {})
    decided = decision_rows([(new, FormatDecision("json", None, named_table=table))], 0)
    sources = open_table(str(directory / "silver" / "sources"), SOURCES_SCHEMA)
    note = read_step_note(sources)
    staged = write_file(sources.path, decided)
    assert staged is not None
    sources.add_files([staged], {}, note.as_json(), note.marks)


def test_lines_for_a_table_that_earlier_decisions_gave_to_another_format_are_refused(
    tmp_path: Path, stream: Stream
) -> None:
    give_to_json(tmp_path, "access")
    before = silver_rows(tmp_path)
    stream.add(web=access_lines(0, 30))
    with pytest.raises(
        StorageError, match=r"^/var/log/web.log: .*silver/access has lines of the format json, "
    ):
        fill(tmp_path)
    assert silver_rows(tmp_path) == before


def test_readers_and_an_erasure_go_along_with_a_new_column(tmp_path: Path, stream: Stream) -> None:
    stream.add(o2=order(2.5) + order(3.5))
    fill(tmp_path, orders(BOTH))
    place = str(tmp_path / "silver" / "orders")
    assert polars.read_delta(place).sort("path", "start")["amount"].to_list() == [None, 2.5, 3.5]
    erase_rows(
        str(tmp_path),
        "message LIKE '%2.5%'",
        by="ann",
        why=None,
        clock=SystemClock(),
        disk=SystemDisk(),
    )
    assert values(tmp_path, "amount") == [(None,), (3.5,)]
