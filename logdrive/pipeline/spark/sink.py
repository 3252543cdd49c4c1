"""The writers of the data source `logdrive`: rows become lines of a stream, each once (ADR 33).

Each partition of a query is a writer of its own at the service. A streaming query appends a
micro-batch once, however often Spark repeats it; so does a batch query that has a `writer`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from logdrive.errors import ConfigError, Mistake
from logdrive.pipeline.spark.options import OPTIONS_NAME
from logdrive.pipeline.spark.write_options import WriteOptions
from logdrive.pipeline.write.appender import RowAppender

# what Spark tells tasks of a micro-batch
_QUERY_ID = "sql.streaming.queryId"  # kept in the checkpoint
_MICRO_BATCH = "streaming.sql.batchId"


@dataclass
class AppendedRows(WriterCommitMessage):  # type: ignore[misc]
    """What a task reports."""

    appended: int
    skipped: int


class BatchWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Writer of a batch query."""

    def __init__(self, options: WriteOptions) -> None:
        # made here, once a query: its tasks may be repeated
        writer = options.writer or f"query {uuid4()}"
        self._appender = RowAppender(options.stream, writer, options.segments)
        self._epoch = options.epoch

    def write(self, iterator: Iterator[pa.RecordBatch]) -> AppendedRows:
        """Append the rows of one partition, in a task."""
        part = str(_task().partitionId())
        return _append(self._appender, part, self._epoch, iterator)


class StreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writer of a streaming query; Spark makes one for each micro-batch, too, to commit it."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> AppendedRows:
        """Append the rows of one partition of a micro-batch, in a task."""
        task, options = _task(), self._options
        writer = options.writer or task.getLocalProperty(_QUERY_ID)
        epoch = task.getLocalProperty(_MICRO_BATCH)
        if writer is None or epoch is None:
            remedy = (
                "this Spark does not tell which query and micro-batch it runs: use foreachBatch"
            )
            raise ConfigError(OPTIONS_NAME, [Mistake("writer", "", remedy)])
        appender = RowAppender(options.stream, writer, options.segments)
        return _append(appender, str(task.partitionId()), int(epoch), iterator)


def _append(
    appender: RowAppender, part: str, epoch: int, batches: Iterator[pa.RecordBatch]
) -> AppendedRows:
    counts = appender.append_rows(part, epoch, batches)
    return AppendedRows(counts.appended, counts.skipped)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "Spark calls this in a task"
    return task
