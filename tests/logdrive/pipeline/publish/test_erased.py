"""Copies in a bucket after an erasure: no object of them has an erased line."""

import threading
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from logdrive.errors import StorageError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.erase import erase_rows
from logdrive.pipeline.gold.schema import GOLD_SCHEMAS
from logdrive.pipeline.publish.publish import Publisher
from logdrive.pipeline.publish.totals import PublishTotals
from logdrive.pipeline.silver.rebuild import drop_silver
from logdrive.pipeline.tables.dropping import drop_tables
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.gold.counted import count
from tests.logdrive.pipeline.publish.test_publish import KilledError, WatchedBucket, kill_after
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.silver.filled import fill
from tests.support.lake import Lake

SECRET = "4111111111111111"
_LOG = "".join(
    f"2026-01-02 12:00:00,000 ERROR [main] shop.Cart: {what}\n"
    "java.io.IOException: x\n\tat shop.Cart.pay(Cart.java:1)\n"
    for what in (f"no card {SECRET}", "no cart", "no money")
)


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Bronze, silver and gold, with the secret in each."""
    segment = Segment()
    send(segment, "shop", _LOG.encode())
    catch_up(tmp_path, segment)
    fill(tmp_path)
    count(tmp_path)
    return tmp_path


def published(directory: Path, lake: Lake) -> PublishTotals:
    publisher = Publisher(str(directory), lake.bucket)
    publisher.publish(threading.Event())
    return publisher.totals


def erase(directory: Path) -> None:
    where = f"message LIKE '%{SECRET}%'"
    clock, disk = SystemClock(), SystemDisk()
    assert erase_rows(str(directory), where, by="ann", why=None, clock=clock, disk=disk).rows == 1


def _objects(lake: Lake) -> list[str]:
    return [
        f"{room}/{name}"
        for room in ("bronze", "silver", "gold")
        for name in lake.bucket.list_objects(room)
    ]


def with_secret(lake: Lake) -> list[str]:
    """Return the objects of rows that have the secret."""
    found = []
    for name in _objects(lake):
        if name.endswith(".parquet") and "_delta_log" not in name:
            data = lake.bucket.read_object(name)
            assert data is not None
            if SECRET in str(pq.read_table(pa.BufferReader(data)).to_pylist()):
                found.append(name)
    return found


def rooms_with_secret(lake: Lake) -> set[str]:
    return {name.split("/")[0] for name in with_secret(lake)}


def rows(lake: Lake, table: str) -> int:
    there = DeltaTable(f"{lake.address}/{table}", storage_options=lake.options)
    return len(pa.table(there.to_pyarrow_table()))


def test_a_gold_that_an_erasure_dropped_is_deleted_and_published_anew(
    tables: Path, lake: Lake
) -> None:
    published(tables, lake)
    assert rooms_with_secret(lake) == {"bronze", "silver", "gold"}
    erase(tables)
    gold = {f"gold/{name}" for name in GOLD_SCHEMAS}
    planned = Publisher(str(tables), lake.bucket).plan(replace=False)
    assert planned.erased.keys() == gold
    assert "gold" in rooms_with_secret(lake)

    done = published(tables, lake)
    assert done.erased == planned.erased
    assert with_secret(lake) == []
    assert not lake.bucket.list_objects("gold")
    assert not published(tables, lake).erased
    count(tables)
    published(tables, lake)
    assert rows(lake, "gold/errors") > 0
    assert with_secret(lake) == []


def test_a_gold_that_was_counted_anew_at_once_replaces_its_copy(tables: Path, lake: Lake) -> None:
    published(tables, lake)
    erase(tables)
    count(tables)
    assert published(tables, lake).erased
    assert rows(lake, "gold/errors") > 0
    assert with_secret(lake) == []


def test_a_copy_of_silver_from_before_it_was_made_anew_and_erased_from_is_replaced(
    tables: Path, lake: Lake
) -> None:
    published(tables, lake)
    drop_silver(str(tables), SystemDisk())
    fill(tables)
    erase(tables)
    published(tables, lake)
    assert with_secret(lake) == []


def test_a_gold_that_was_dropped_without_an_erasure_stays(tables: Path, lake: Lake) -> None:
    erase(tables)
    count(tables)
    published(tables, lake)
    drop_tables(str(tables / "gold"), SystemDisk())
    assert not published(tables, lake).erased
    assert rows(lake, "gold/errors") > 0
    count(tables)
    with pytest.raises(StorageError, match="made before this one"):
        published(tables, lake)


def test_a_publication_that_is_killed_amid_it_leaves_no_erased_line_in_the_end(
    tables: Path, lake: Lake
) -> None:
    published(tables, lake)
    erase(tables)
    for turn in range(40):
        with suppress(KilledError):
            bucket = WatchedBucket(lake, kill_after(1 + turn))
            Publisher(str(tables), bucket).publish(threading.Event())
            break
    else:
        pytest.fail("it does not come to an end")
    assert with_secret(lake) == []
    assert not lake.bucket.list_objects("gold")
