"""Figures of a running `pipeline run`, and where Prometheus fetches them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from logdrive.address import host_port
from logdrive.errors import Mistake, UnavailableError, os_error_text
from logdrive.pipeline.bronze.writer import CommitCounts
from logdrive.pipeline.bronze.written_range import WrittenRange

DEFAULT_PORT: Final = 9464
DRIVER, SPARK = "driver", "spark"
"""Where a micro-batch was written: values of the label `place`."""

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)  # limits of a histogram


class RunMetrics:
    """Counts what a run does. Threads may share it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._rows = self._counter("rows", "Rows added to the table events.")
        self._batches = self._counter("batches", "Rows added to the table batches.")
        self._bytes = self._counter("stored_bytes", "Bytes of the batches, as stored.")
        self._micro_batches = self._counter(
            "micro_batches", "Micro-batches committed, by where they were written.", "place"
        )
        self._restarts = self._counter("restarts", "Failures after which reading began again.")
        self._failed_attempts = self._counter(
            "spark_failed_tasks", "Attempts of Spark's tasks that failed."
        )
        self._silver_rows = self._counter("silver_rows", "Rows added to silver's tables.", "table")
        self._silver_waiting = self._gauge(
            "silver_waiting_versions", "Versions of the table events that are not in silver yet."
        )
        self._silver_seconds = self._histogram("silver_step_seconds", "Time of one step of silver.")
        self._gold_lines = self._counter("gold_lines", "Rows of silver that gold has counted.")
        self._gold_seconds = self._histogram("gold_step_seconds", "Time of one step of gold.")
        self._quarantined = self._counter(
            "silver_quarantined_rows", "Rows that silver has put in quarantine.", "format", "reason"
        )
        self._written_bytes = self._counter(
            "task_stored_bytes", "Stored bytes that tasks have read and decoded.", "place"
        )
        self._task_seconds = self._histogram(
            "task_seconds", "Time of one task: reading, decoding and writing a range.", "place"
        )
        self._commit_seconds = self._histogram(
            "commit_seconds", "Time of one commit to both tables."
        )
        self._waiting = self._gauge(
            "waiting_offsets", "What is stored and not read yet: bytes, or records of S2 and Iggy."
        )
        self._removed = self._counter(
            "removed_offsets",
            "What was removed before it was read: bytes, or records of S2 and Iggy.",
        )
        self._last_commit = self._gauge(
            "last_commit_timestamp_seconds", "When the last micro-batch was committed."
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"logdrive_pipeline_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"logdrive_pipeline_{name}", text, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        full = f"logdrive_pipeline_{name}"
        return Histogram(full, text, labels, buckets=_SECONDS, registry=self.registry)

    def note_waiting(self, offsets: int) -> None:
        """Note how much is stored and not read yet."""
        self._waiting.set(offsets)

    def note_removed(self, offsets: int) -> None:
        """Count what was removed before it was read."""
        self._removed.inc(offsets)

    def note_written(self, place: str, written: Sequence[WrittenRange]) -> None:
        """Count the tasks that wrote a micro-batch at *place*."""
        for one in written:
            self._task_seconds.labels(place).observe(one.seconds)
            self._written_bytes.labels(place).inc(one.bytes)

    def note_commit(self, place: str, counts: CommitCounts, seconds: float) -> None:
        """Count one commit of what was written at *place*, which took *seconds*."""
        self._rows.inc(counts.events)
        self._batches.inc(counts.batches)
        self._bytes.inc(counts.bytes)
        self._micro_batches.labels(place).inc()
        self._commit_seconds.observe(seconds)
        self._last_commit.set_to_current_time()

    def watch_silver(self, waiting: Callable[[], int]) -> None:
        """Show what *waiting* returns, at each look: versions that are not in silver yet.

        It is called in another thread.
        """
        self._silver_waiting.set_function(waiting)

    def note_silver_step(self, rows: Mapping[str, int], seconds: float) -> None:
        """Count one step of silver, which added *rows*, by table, and took *seconds*."""
        for table, count in rows.items():
            self._silver_rows.labels(table).inc(count)
        self._silver_seconds.observe(seconds)

    def note_gold_step(self, lines: int, seconds: float) -> None:
        """Count one step of gold, which counted *lines* rows of silver and took *seconds*."""
        self._gold_lines.inc(lines)
        self._gold_seconds.observe(seconds)

    def note_quarantined(self, reasons: Mapping[tuple[str | None, str], int]) -> None:
        """Count rows that silver has put in quarantine, by format, if there is one, and reason."""
        for (name, reason), rows in reasons.items():
            self._quarantined.labels(name or "", reason).inc(rows)

    def note_restart(self) -> None:
        """Count a failure after which reading begins again."""
        self._restarts.inc()

    def note_failed_attempts(self, count: int) -> None:
        """Count attempts of Spark's tasks that failed."""
        self._failed_attempts.inc(count)

    def values(self) -> Mapping[str, float]:
        """Return the present value of each figure without labels, by its name."""
        return {
            sample.name: sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if not sample.labels
        }


@contextmanager
def serve_metrics(metrics: RunMetrics, address: str) -> Iterator[None]:
    """Answer Prometheus at *address*, `host:port`, in a thread inside the context.

    Serves nothing for an empty *address*. Raises `UnavailableError` if it can't be listened at.
    """
    if not address:
        yield
        return
    host, port = host_port(address, DEFAULT_PORT)
    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as error:
        other = f"write host:port, such as :{address}" if address.isdigit() else "choose another"
        remedy = f"{os_error_text(error)}: {other}"
        raise UnavailableError("pipeline", [Mistake("metrics", address, remedy)]) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
