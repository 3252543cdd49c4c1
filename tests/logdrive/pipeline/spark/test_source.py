"""The data source `logdrive` in Spark: rows of every form, in batch and streaming queries, over the
network face of a real store.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from logdrive.errors import ConfigError
from logdrive.host.transport import ClientTls
from logdrive.pipeline.bronze.rebuild import COLUMNS, rebuild
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.spark.options import parse_options
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.controller import Login
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.storing import served, store


@pytest.fixture(scope="module")
def segments() -> list[Segment]:
    segments = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(2)]
    at = 0
    for turn in range(30):
        at = send(segments[0], "a", lines("a", turn * 40, 40), at)
    send(segments[1], "b", b"crlf\r\nlone \r cr\n\xff\xfe\nno end")
    segments[1].foreign("beats", [b'{"message":"x","@timestamp":"2026-11-21T06:00:00Z"}', b"{"])
    segments[1].gap("b", 30, 40, "removed")
    return segments


@pytest.fixture(scope="module")
def face(
    tmp_path_factory: pytest.TempPathFactory, segments: list[Segment]
) -> Iterator[StreamClient]:
    with served(tmp_path_factory.mktemp("store") / "store", *segments) as client:
        yield client


def _file(rows: pa.Table, source: str) -> bytes:
    table = rows.select([*COLUMNS, "source"])
    ((start, data),) = rebuild(table.filter(pa.compute.equal(table["source"], source_id(source))))
    assert start == 0
    return data


def _check(rows: pa.Table) -> None:
    assert rows.num_rows == 1200 + 4 + 2
    assert _file(rows, "a") == lines("a", 0, 1200)
    assert _file(rows, "b") == b"crlf\r\nlone \r cr\n\xff\xfe\nno end"
    foreign = rows.filter(pa.compute.equal(rows["source"], source_id("beats"))).to_pylist()
    assert sorted(row["flag"] or "" for row in foreign) == ["", "not_json"]
    assert set(rows["stream"].to_pylist()) == {STREAM}


@pytest.mark.spark
def test_a_batch_query_gives_a_row_an_event(face: StreamClient, spark: Any) -> None:
    frame = (
        spark.read.format("logdrive")
        .options(uri=face.uri, **face.connection_options())
        .option("rangeBytes", 10_000)
        .load()
    )
    assert frame.rdd.getNumPartitions() > 3
    _check(frame.toArrow())
    assert frame.filter("message = 'a line 7 ä'").count() == 1


@pytest.mark.spark
def test_r8_a_batch_query_has_all_rows_of_packs_far_smaller_than_what_they_hold(
    tmp_path: Path, spark: Any
) -> None:
    segment, at = Segment(), 0
    text = b"".join(b"%07d" % n + b"x" * 4088 + b"\n" for n in range(512))
    for _ in range(9):
        at = segment.packed("a", text, at)
    with served(tmp_path / "store", segment) as face:
        frame = spark.read.format("logdrive").options(uri=face.uri, **face.connection_options())
        rows = frame.load().toArrow()
    assert rows.num_rows == 9 * 512
    assert _file(rows, "a") == text * 9


@pytest.mark.spark
def test_a_streaming_query_goes_on_where_its_checkpoint_says(
    tmp_path: Path, segments: list[Segment], spark: Any
) -> None:
    """Bounded micro-batches, then more data, then the same checkpoint: each row once."""

    def run(face: StreamClient) -> None:
        stream = (
            spark.readStream.format("logdrive")
            .options(uri=face.uri, **face.connection_options())
            .option("maxBytesPerBatch", 5000)
            .load()
        )
        query = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        started = (
            query.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert started.awaitTermination(120)
        assert started.exception() is None

    half = [Segment(name=one.name, data=bytearray(one.data)) for one in segments]
    del half[0].data[_middle(segments[0]) :]
    with served(tmp_path / "store", *half) as face:
        run(face)
    store(tmp_path / "store", *segments)
    with served(tmp_path / "store") as face:
        run(face)
    _check(spark.read.parquet(str(tmp_path / "out")).toArrow())
    batches = sorted(
        int(path.name)
        for path in (tmp_path / "checkpoint" / "offsets").iterdir()
        if path.name.isdigit()
    )
    assert len(batches) > 2


def _middle(segment: Segment) -> int:
    from logdrive.pipeline.decode.batches import walk_batches

    return [hop.next for hop in walk_batches(segment.name, 0, bytes(segment.data))][14]


def test_every_mistake_in_the_options_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_options(
            {
                "URI": "pravega://h",
                "maxBytesPerBatch": "many",
                "startingOffsets": "{}",
            }
        )
    assert [mistake.key for mistake in caught.value.mistakes] == [
        "maxBytesPerBatch",
        "startingOffsets",
        "uri",
    ]


def test_what_lets_a_run_in_reaches_sparks_workers_as_options_and_is_not_shown() -> None:
    tls = ClientTls("ca.pem", "cert.pem", "key.pem", "s")
    for target in (
        Target("h", 1, tls, login=Login("fleet", "a secret")),
        Target("h", 1, token="a secret"),
        Target("h", 1, ClientTls("ca.pem")),
        Target("h", 1),
    ):
        face = StreamClient(target, "a", "b")
        parsed = parse_options({"uri": face.uri, **face.connection_options()}).stream
        assert isinstance(parsed, StreamClient)
        assert parsed.target == target
        assert "a secret" not in repr(face)


def test_options_are_read_in_any_case() -> None:
    options = parse_options(
        {
            "uri": "pravega://h:1/a/b",
            "maxbytesperbatch": "5",
            "CA": "ca.pem",
            "serverName": "s",
        }
    )
    assert (options.max_bytes, options.stream.name) == (5, "a/b")
    assert isinstance(options.stream, StreamClient)
    assert options.stream.target.tls is not None
    assert options.stream.target.tls.server_name == "s"
