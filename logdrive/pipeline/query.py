"""One streaming query: Spark reads micro-batches of a stream, and each is committed to the tables.

Tasks write the files; the driver commits them, in `foreachBatch`. The query's checkpoint is scratch
and is removed with it: each query begins where the tables end, so that a checkpoint that is new,
lost or restored neither skips nor doubles a byte.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from logdrive.errors import LogdriveError
from logdrive.model.units import OffsetUnit
from logdrive.pipeline.bronze.tables import table_paths
from logdrive.pipeline.bronze.writer import Bronze, CommitCounts
from logdrive.pipeline.plan import Plan
from logdrive.pipeline.read.offsets import Progress
from logdrive.pipeline.spark.failures import convert_spark_failures, to_transient_error
from logdrive.pipeline.spark.scratch import open_scratch_directory
from logdrive.pipeline.spark.task import MESSAGES, decode_result, write_events
from logdrive.services.reader import ServiceReader

_POLL_SECONDS = 0.2  # between looks at whether the query has ended


class TableQuery:
    """A query that fills *tables* until it ends, fails, or *stop* is set. Run it once.

    *on_commit* is called after each commit, also of an empty micro-batch, in a thread of Spark's.
    *log* is the file with Spark's own messages, for errors; None if the session is not ours.
    """

    def __init__(
        self,
        plan: Plan,
        tables: Bronze,
        stop: threading.Event,
        on_commit: Callable[[CommitCounts], None],
        log: Path | None,
    ) -> None:
        self._plan = plan
        self._tables = tables
        self._stop = stop
        self._on_commit = on_commit
        self._log = log
        # what the stream's offsets count
        self._unit: OffsetUnit = "bytes"
        # held while a micro-batch is written and committed
        self._committing = threading.Lock()
        # what a micro-batch raised: Spark passes on only its text
        self._failure: Exception | None = None
        # True: micro-batches that Spark still starts are left for the next query
        self._ending = False

    def run_to_end(self, spark: Any, stream: ServiceReader, start: Progress) -> None:
        """Run the query on *stream* from *start* and return once it has ended.

        With `Plan.once` it ends when all that is there has been read. Raises what a micro-batch
        raised, and `TransientError` for failures of Spark.
        """
        self._unit = stream.offset_unit
        options = {
            "uri": stream.uri,
            "form": "raw",
            "maxBytesPerBatch": str(self._plan.max_bytes_per_batch),
            "startingOffsets": orjson.dumps(start.as_json()).decode(),
        }
        options |= stream.connection_options()

        trigger = (
            {"availableNow": True}
            if self._plan.once
            else {"processingTime": f"{self._plan.trigger_seconds} seconds"}
        )

        # on the storage of the tables, which has room
        bronze = os.path.dirname(table_paths(self._plan.directory)[0])
        with open_scratch_directory(bronze) as scratch:
            with convert_spark_failures(self._log):
                source = spark.readStream.format("logdrive").options(**options).load()
                writing = source.writeStream.foreachBatch(self._write_micro_batch)
                writing = writing.option("checkpointLocation", str(scratch / "checkpoint"))
                query = writing.trigger(**trigger).start()

            try:
                while not self._stop.wait(_POLL_SECONDS) and query.isActive:
                    pass
            finally:
                self._ending = True
                # Let the running micro-batch commit. Don't hold the lock during `query.stop`, which
                # waits for the callback.
                with self._committing:
                    pass
                query.stop()

            self._raise_failure(query.exception())

    def _write_micro_batch(self, chunks: Any, _: int) -> None:
        """Write the files of one micro-batch in tasks, and commit them here."""
        with self._committing:
            if self._ending:  # not committed: the next query reads it again
                return
            try:
                # locals, so that Spark does not pickle this object for the tasks
                directory, compression, unit = (
                    table_paths(self._plan.directory)[0],
                    self._plan.compression,
                    self._unit,
                )
                messages = chunks.mapInArrow(
                    lambda some: write_events(some, directory, compression, unit),
                    _spark_schema(MESSAGES),
                )
                counts = self._tables.commit_ranges(
                    decode_result(row) for row in messages.toArrow().to_pylist()
                )
            except Exception as error:
                self._failure = error
                raise
            self._on_commit(counts)

    def _raise_failure(self, ended: Any) -> None:
        """Raise what ended the query, if anything; *ended* is Spark's exception or None."""
        if isinstance(self._failure, LogdriveError):  # ours, with a remedy: not Spark's copy of it
            raise self._failure
        if ended is not None or self._failure is not None:
            raise to_transient_error(
                "the query failed", ended or self._failure, self._log
            ) from self._failure


def _spark_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
