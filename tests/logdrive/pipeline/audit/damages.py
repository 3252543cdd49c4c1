"""Damages to tables that no writer would do: what an audit must find, by either engine."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.pipeline.bronze.tables import open_tables
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, file_records, lines, source_id

Damage = Callable[[pa.Table, Random], pa.Table]
TEMPLATE = lines("template", 0, 8)


def fill_tables(directory: Path) -> None:
    """Fill tables in two commits with all that an audit tells apart."""
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 12))
    segment.packed("packs", lines("packs", 0, 12))
    segment.foreign("beats", [b'{"message":"x","log":{"offset":5,"file":{"path":"/f"}}}'] * 3)
    _send_copy(segment, "one", TEMPLATE + lines("one", 0, 3))
    segment.data_batch("broken", 0, 5, [b"{"], 1)
    segment.stray(b"no header")
    catch_up(directory, segment)

    at = send(segment, "a", lines("a", 12, 6) + b"unended", at)
    at = send(segment, "a", b" line\n", at)
    segment.gap("a", at, at + 30, "removed")
    lying = make_pack(PackForm.TEXT, TEMPLATE, PackCodec.DEFLATE)
    segment.pack("liar", 0, len(TEMPLATE), lying, 9)
    _send_copy(segment, "two", TEMPLATE + lines("two", 0, 3))
    segment.dead_letter("beats", 900)
    catch_up(directory, segment)


def _send_copy(segment: Segment, source: str, data: bytes) -> None:
    """Send *data* as the whole file of *source*; all such sources have one origin."""
    records, count = file_records(data, 0)
    segment.data_batch(source, 0, len(data), records, count, origin=source_id("origin"))


def damage_events(directory: Path, damage: Damage, random: Random) -> None:
    """Put other rows into one of the files of `events`, behind the table's back."""
    _damage(open_tables(str(directory))[0].files, damage, random)


def damage_batches(directory: Path, damage: Damage, random: Random) -> None:
    """Put other rows into one of the files of `batches`, behind the table's back."""
    _damage(open_tables(str(directory))[1].files, damage, random)


def _damage(files: list[str], damage: Damage, random: Random) -> None:
    # by content: names differ from run to run
    tables = {path: pq.ParquetFile(path).read() for path in files}
    path = random.choice(sorted(files, key=lambda path: str(tables[path]["batch"].to_pylist())))
    pq.write_table(damage(tables[path], random), path, store_schema=False)


def row_lost(rows: pa.Table, random: Random) -> pa.Table:
    at = random.randrange(len(rows)) if len(rows) else 0
    return pa.concat_tables([rows.slice(0, at), rows.slice(at + 1)])


def row_doubled(rows: pa.Table, random: Random) -> pa.Table:
    at = random.randrange(len(rows)) if len(rows) else 0
    return pa.concat_tables([rows, rows.slice(at, 1)])


def row_moved(rows: pa.Table, random: Random) -> pa.Table:
    """Give a row's place to a row of another batch or source, and the other way around."""
    one, other = random.choices(range(len(rows)), k=2)
    order = list(range(len(rows)))
    order[one], order[other] = other, one
    places = rows.select(["start", "end"]).take(pa.array(order))
    return _changed(_changed(rows, "start", places["start"]), "end", places["end"])


def order_changed(rows: pa.Table, random: Random) -> pa.Table:
    """Mix the rows: no damage, as tables have no order."""
    order = list(range(len(rows)))
    random.shuffle(order)
    return rows.take(pa.array(order))


def start_shifted(rows: pa.Table, random: Random) -> pa.Table:
    return _with_value(rows, "start", random, lambda old: None if old is None else old - 1)


def end_shifted(rows: pa.Table, random: Random) -> pa.Table:
    return _with_value(rows, "end", random, lambda old: None if old is None else old + 7)


def start_gone(rows: pa.Table, random: Random) -> pa.Table:
    return _with_value(rows, "start", random, lambda _: None)


def end_before_start(rows: pa.Table, random: Random) -> pa.Table:
    return _with_value(rows, "end", random, lambda old: -5 if old is not None else None)


def flag_changed(rows: pa.Table, random: Random) -> pa.Table:
    flag = random.choice(["changed", "whole", "cut", "torn", "malformed", None])
    return _with_value(rows, "flag", random, lambda _: flag)


def line_end_gone(rows: pa.Table, random: Random) -> pa.Table:
    return _with_value(rows, "eol", random, lambda _: "")


def message_changed(rows: pa.Table, random: Random) -> pa.Table:
    return _with_value(rows, "message", random, lambda old: old[::-1])


def source_changed(rows: pa.Table, random: Random) -> pa.Table:
    other = random.choice([source_id("a"), source_id("two"), None])
    return _with_value(rows, "source", random, lambda _: other)


def batch_changed(rows: pa.Table, random: Random) -> pa.Table:
    """Let a row belong to a batch that has no header."""
    return _with_value(rows, "batch", random, lambda old: old + 1)


def header_lost(rows: pa.Table, random: Random) -> pa.Table:
    return row_lost(rows, random)


def header_doubled(rows: pa.Table, random: Random) -> pa.Table:
    return row_doubled(rows, random)


def all_headers_lost(rows: pa.Table, _: Random) -> pa.Table:
    """As between the two commits of a micro-batch."""
    return rows.slice(0, 0)


def kept_changed(rows: pa.Table, random: Random) -> pa.Table:
    return _with_value(rows, "kept", random, lambda old: old and [old[0] | {"end": 9}])


def count_changed(rows: pa.Table, random: Random) -> pa.Table:
    return _with_value(rows, "events", random, lambda old: old + 1)


OF_EVENTS: dict[str, Damage] = {
    one.__name__: one
    for one in (
        row_lost,
        row_doubled,
        row_moved,
        order_changed,
        start_shifted,
        end_shifted,
        start_gone,
        end_before_start,
        flag_changed,
        line_end_gone,
        message_changed,
        source_changed,
        batch_changed,
    )
}
OF_BATCHES: dict[str, Damage] = {
    one.__name__: one
    for one in (header_lost, header_doubled, all_headers_lost, kept_changed, count_changed)
}


def _with_value(
    rows: pa.Table, name: str, random: Random, change: Callable[[Any], Any]
) -> pa.Table:
    values = rows[name].to_pylist()
    if values:
        at = random.randrange(len(values))
        values[at] = change(values[at])
    return _changed(rows, name, pa.array(values, rows.schema.field(name).type))


def _changed(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    at = rows.schema.get_field_index(name)
    return rows.set_column(at, pa.field(name, rows.schema.field(name).type), values)
