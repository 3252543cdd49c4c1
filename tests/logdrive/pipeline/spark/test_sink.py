"""Rows written with `format("logdrive")`: each once, in batch and streaming queries of Spark."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logdrive.errors import ConfigError
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.spark.source import LogdriveSource
from logdrive.pipeline.spark.write_options import parse_write_options
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.storing import served

_LINES = 400


@pytest.fixture
def face(tmp_path: Path) -> Iterator[StreamClient]:
    segment, at = Segment(), 0
    for turn in range(10):
        at = send(segment, "a", lines("a", turn * 40, 40), at)
    with served(tmp_path / "store", segment) as client:
        yield client


def _options(face: StreamClient, stream: str = "copy") -> dict[str, str]:
    copy = StreamClient(face.target, face.scope, stream)
    return {"uri": copy.uri, "segments": "2", **copy.connection_options()}


def _messages(face: StreamClient) -> Counter[str]:
    one = LogdriveSource({**_options(face), "columns": "message"})
    reader = one.reader(one.schema())
    return Counter(
        row["message"]
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    )


def _expected() -> Counter[str]:
    return Counter(lines("a", 0, _LINES).decode().splitlines())


def _events(face: StreamClient, read: Any) -> Any:
    options = {"uri": face.uri, "rangeBytes": "1000", "maxBytesPerBatch": "3000"}
    return read.format("logdrive").options(**options, **face.connection_options()).load()


@pytest.mark.spark
def test_a_batch_query_that_is_repeated_under_one_name_appends_once(
    face: StreamClient, spark: Any
) -> None:
    frame = _events(face, spark.read)
    assert frame.rdd.getNumPartitions() > 2

    def write(**more: str) -> None:
        copied = frame.write.format("logdrive").options(**_options(face), **more)
        copied.mode("append").save()

    write(writer="copy")
    write(writer="copy")
    assert _messages(face) == _expected()
    write(writer="copy", epoch="1")
    write()
    assert set(_messages(face).values()) == {3}


@pytest.mark.spark
def test_a_micro_batch_that_spark_repeats_is_appended_once(
    tmp_path: Path, face: StreamClient, spark: Any
) -> None:
    def run() -> None:
        selected = _events(face, spark.readStream).select("message", "host", "path")
        query = selected.writeStream.format("logdrive").options(**_options(face))
        started = (
            query.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert started.awaitTermination(120)
        assert started.exception() is None

    run()
    assert _messages(face) == _expected()
    commits = tmp_path / "checkpoint" / "commits"
    done = sorted(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    assert len(done) > 2
    # as if Spark had been killed before it noted the end of the last micro-batch
    (commits / str(done[-1])).unlink()
    run()
    assert _messages(face) == _expected()
    assert (commits / str(done[-1])).exists()


def test_every_mistake_of_a_query_that_writes_is_named_at_once() -> None:
    given = {"uri": "s2://h/b/s", "writer": "", "epoch": "-1", "segments": "0"}
    with pytest.raises(ConfigError) as caught:
        parse_write_options(given, ["text", "host"], overwrite=True)
    mistakes = [mistake.key for mistake in caught.value.mistakes]
    assert mistakes == ["column", "column", "mode", "writer", "epoch", "segments", "uri"]
    with pytest.raises(ConfigError, match="give `writer`"):
        parse_write_options({"uri": "pravega://h/a/b", "epoch": "1"}, ["message"], overwrite=False)


def test_what_lets_a_query_write_is_taken_from_its_options() -> None:
    given = {"URI": "pravega://h:1/a/b", "Token": "t", "Writer": "w", "epoch": "3", "user": "u"}
    options = parse_write_options(given, ["message", "offset"], overwrite=False)
    assert (options.writer, options.epoch, options.segments) == ("w", 3, None)
    assert (options.stream.name, options.stream.target.token) == ("a/b", "t")
    assert options.stream.target.login is not None
