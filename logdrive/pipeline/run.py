"""`logdrive pipeline run`: a streaming query from a stream to the bronze tables, restarted where it
fails, until told to stop.

The query's checkpoint is scratch: each query begins where the tables end (see `tables`), so a new
one, a lost one or a restored one neither skips nor doubles.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import structlog

from logdrive.errors import (
    ConfigError,
    LogdriveError,
    Mistake,
    StorageError,
    TransientError,
    file_error_text,
)
from logdrive.host.clock import Clock, SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.net.retry import Backoff, Exponential, retry_blocking, sleep_using_event
from logdrive.net.stream import ClientTls
from logdrive.pipeline.bronze.files import DEFAULT_COMPRESSION
from logdrive.pipeline.bronze.history import Known
from logdrive.pipeline.bronze.tables import paths
from logdrive.pipeline.bronze.writer import Bronze, Committed, MismatchError
from logdrive.pipeline.read.connect import moved, reached
from logdrive.pipeline.read.consumer_position import DEFAULT_READER, ConsumerPosition
from logdrive.pipeline.read.offsets import NONE_BEGUN, Point, Progress
from logdrive.pipeline.read.old_letters import note_old_letters
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.spark.failures import WorkerStartError, spark_failure, spark_failures
from logdrive.pipeline.spark.session import DEFAULT_MEMORY, session
from logdrive.pipeline.spark.source import MAX_BYTES_PER_BATCH, LogdriveSource
from logdrive.pipeline.spark.task import MESSAGES, write_events, written_of
from logdrive.services.pravega.client.client import SegmentState
from logdrive.services.pravega.client.controller import Login

_WAIT = Exponential(1.0, 30.0)  # seconds between two queries
_FAILURES = 10  # queries that may fail one after the other without a commit between
_POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do.

    Without *once* it goes on until told to stop, looking for more every *trigger_seconds*.
    """

    uri: str
    directory: str
    once: bool = False
    max_bytes_per_batch: int = MAX_BYTES_PER_BATCH
    trigger_seconds: float = 1.0
    master: str | None = None
    memory: str = DEFAULT_MEMORY
    compression: str = DEFAULT_COMPRESSION
    tls: ClientTls | None = None
    login: Login | None = None
    reader: str = DEFAULT_READER


@dataclass(slots=True)
class RunResult:
    """What a run has added so far; *there* is how many stored bytes there were to read when it
    began.
    """

    micro_batches: int = 0
    batches: int = 0
    events: int = 0
    bytes: int = 0
    there: int = 0

    @property
    def waiting(self) -> int:
        """How many of the bytes that were there when it began have not been read."""
        return max(0, self.there - self.bytes)

    def as_json(self) -> dict[str, int]:
        """Return what `--json` prints."""
        return asdict(self) | {"waiting": self.waiting}

    def count(self, more: Committed) -> None:
        """Add a commit."""
        self.micro_batches += 1
        self.batches += more.batches
        self.events += more.events
        self.bytes += more.bytes


Tell = Callable[[RunResult], None]


def run(
    plan: Plan,
    stop: threading.Event,
    tell: Tell = lambda _: None,
    clock: Clock | None = None,
    spark: Any = None,
    starting: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> RunResult:
    """Read into the tables until all that was there at the start is (`once`), or until *stop*; then
    the running micro-batch ends first.

    *tell* is called after every commit; *spark* is a session to use instead of one of its own,
    which starts inside *starting*. Raises `ConfigError`, `StorageError`, and what ended the query
    for good.
    """
    with ExitStack() as held:
        face = held.enter_context(reached(plan.uri, plan.tls, plan.login))
        # before tables are made: empty ones would tell an audit that the run had gone well
        _states(face, plan.uri)
        _make(plan.directory)
        tables = held.enter_context(
            Bronze(
                plan.directory,
                clock=clock or SystemClock(),
                disk=SystemDisk(),
                compression=plan.compression,
            )
        )
        job = _Run(plan, tables, face, stop, tell)
        note_old_letters(face)
        start = job.begin()
        held.callback(job.tell_store)  # once more, where it could not be told at the last commit
        if plan.once and not job.outcome.there:
            return job.outcome
        if spark is None:
            job.log = Path(plan.directory, "spark.log")
            with starting():
                own = session(
                    "logdrive pipeline", master=plan.master, memory=plan.memory, log=job.log
                )
                spark = held.enter_context(own)
        spark.dataSource.register(LogdriveSource)
        return job.until_done(spark, start)


@dataclass
class _Run:
    plan: Plan
    tables: Bronze
    face: StreamClient
    stop: threading.Event
    tell: Tell
    outcome: RunResult = field(default_factory=RunResult)
    backoff: Backoff = field(default_factory=lambda: Backoff(_WAIT))  # failures since a commit
    started: bool = False  # whether a first query was
    committing: threading.Lock = field(default_factory=threading.Lock)
    failure: Exception | None = None
    ending: bool = False
    log: Path | None = None  # of a Spark session of this run's own
    reader: ConsumerPosition = field(init=False)

    def __post_init__(self) -> None:
        self.reader = ConsumerPosition(self.plan.reader)

    def until_done(self, spark: Any, start: Progress) -> RunResult:
        """Run queries, the first from *start*, until one ends well or *stop* is set.

        Raises what failed if another query would not help, or if too many failed in a row.
        """
        until_one_ends_well = retry_blocking(
            (TransientError, MismatchError),
            sleep=sleep_using_event(self.stop),
            wait=self.backoff,
            unless=self._is_final,
            give_up=lambda _: self.backoff.failures >= _FAILURES,
            on_failure=_warn_of_restart,
        )
        until_one_ends_well(self._start_query, spark, start)
        return self.outcome

    def _start_query(self, spark: Any, start: Progress) -> None:
        """Run one query to its end: the first one from *start*, a later one from where the tables
        end.
        """
        if not self.started:
            self.started = True
        elif self.stop.is_set():
            return  # while it waited to start again
        else:
            self.tables.reload()
            self.face = moved(self.plan.uri, self.face)
            start = self.begin()
        self._query(spark, start)

    def _is_final(self, error: BaseException) -> bool:
        """Return whether no other query would help: with `once`, unless this one had no turn."""
        return self.plan.once and not isinstance(error, MismatchError | WorkerStartError)

    def begin(self) -> Progress:
        """Return where the tables end, in segments that are still the ones they were read from
        (rule R5).
        """
        log = structlog.get_logger("logdrive.pipeline")
        states = self.face.segments()
        if not states:
            raise ConfigError(
                "pipeline", [Mistake("from", self.plan.uri, f"there is no stream {self.face.name}")]
            )
        points = {}
        for state in states:
            number = self.face.number(state.segment)
            chain = self.tables.chain(state.segment)
            standing = self._standing(state, chain)
            if standing < len(chain):
                last = chain[standing - 1] if standing else None
                log.warning(
                    "the store went back; reading again",
                    segment=state.segment,
                    had=chain[-1].next,
                    now=last.next if last else 0,
                )
                self.tables.go_back(state.segment, chain, last)
            if self.tables.end(state.segment) < state.start:
                log.warning(
                    "bytes were removed before they were read",
                    segment=state.segment,
                    start=self.tables.end(state.segment),
                    end=state.start,
                )
                self.tables.skip_to(state.segment, state.start)
            self.tables.begin(state.segment, chain[:standing])
            points[number] = self._point(state.segment, chain[standing - 1] if standing else None)
            self.outcome.there += (
                max(0, state.length - points[number].next) if not self.started else 0
            )
        self.tell_store()
        return Progress(points, {})

    def _point(self, segment: str, last: Known | None) -> Point:
        end, since = self.tables.end(segment), self.tables.since(segment)
        begun = since if since < end else NONE_BEGUN
        return (
            Point(end, last.offset, last.crc, begun)
            if last is not None
            else Point(end, since=begun)
        )

    def _standing(self, state: SegmentState, chain: Sequence[Known]) -> int:
        """Return how many headers of *chain* are still the segment's past; those that were cut off
        since can't be asked.
        """
        there = [known for known in chain if known.offset >= state.start]
        if there:
            found = self.face.last_match(state.segment, there)
            return len(chain) - len(there) + found if found else 0
        return len(chain) if chain and chain[-1].next <= state.length else 0

    def tell_store(self) -> None:
        """Let retention have what the tables hold."""
        self.reader.tell(self.face, self.tables.ends())

    def _query(self, spark: Any, start: Progress) -> None:
        """Run one query to its end. Raises what failed."""
        self.failure, self.ending = None, False
        options = {
            "uri": self.face.uri,
            "form": "raw",
            "maxBytesPerBatch": str(self.plan.max_bytes_per_batch),
            "startingOffsets": orjson.dumps(start.as_json()).decode(),
        }
        options |= to_connect(self.face)
        trigger = (
            {"availableNow": True}
            if self.plan.once
            else {"processingTime": f"{self.plan.trigger_seconds} seconds"}
        )
        with _scratch(self.plan.directory) as checkpoint:
            with spark_failures(self.log):
                stream = spark.readStream.format("logdrive").options(**options).load()
                writing = stream.writeStream.foreachBatch(self._micro_batch)
                writing = writing.option("checkpointLocation", checkpoint)
                query = writing.trigger(**trigger).start()
            try:
                while not self.stop.wait(_POLL_SECONDS) and query.isActive:
                    pass
            finally:
                self.ending = True
                # what runs is committed first; held no longer, since Spark waits for its callback
                # in turn
                with self.committing:
                    pass
                query.stop()
            self._judge(query.exception())

    def _micro_batch(self, chunks: Any, _: int) -> None:
        """Write one micro-batch's files in tasks, and commit them here."""
        with self.committing:
            if self.ending:
                return  # the next query begins where the tables end
            try:
                directory, compression = paths(self.plan.directory)[0], self.plan.compression
                messages = chunks.mapInArrow(
                    lambda some: write_events(some, directory, compression), _spark_schema(MESSAGES)
                )
                committed = self.tables.commit(
                    written_of(row) for row in messages.toArrow().to_pylist()
                )
            except Exception as error:
                self.failure = error
                raise
            self.backoff.reset()
            if committed.batches:  # Spark also runs a first micro-batch of nothing
                self.tell_store()
                self.outcome.count(committed)
                self.tell(self.outcome)

    def _judge(self, ended: Any) -> None:
        """Raise what ended the query, as one of ours."""
        if isinstance(self.failure, LogdriveError):
            raise self.failure
        if ended is not None or self.failure is not None:
            raise spark_failure(
                "the query failed", ended or self.failure, self.log
            ) from self.failure


def _warn_of_restart(error: BaseException, seconds: float) -> None:
    structlog.get_logger("logdrive.pipeline").warning(
        "the query failed and is started again", error=str(error), seconds=seconds
    )


def to_connect(face: StreamClient) -> dict[str, str]:
    """Return the options by which Spark's workers come in; in what Spark itself shows, passwords
    and tokens are blanked.
    """
    target, login = face.target, face.target.login
    named = {"token": target.token or None}
    if target.tls is not None:
        named |= {
            "ca": target.tls.ca,
            "cert": target.tls.cert,
            "key": target.tls.key,
            "serverName": target.tls.server_name,
        }
    if login is not None:
        named |= {"user": login.user, "password": login.password}
    return {name: value for name, value in named.items() if value is not None}


def _states(face: StreamClient, uri: str) -> list[SegmentState]:
    """Return what the segments of the stream *uri* are like.

    Raises `ConfigError` where there is none, `TransientError`.
    """
    if states := face.segments():
        return states
    remedy = (
        f"there is no stream {face.name}; which there are can't be asked over the network: "
        "compare `[sink] uri` of the receiver"
    )
    raise ConfigError("pipeline", [Mistake("from", uri, remedy)])


def _make(directory: str) -> None:
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"the tables' directory can't be made: {file_error_text(error)}"
        ) from error


def _spark_schema(schema: Any) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


@contextmanager
def _scratch(directory: str) -> Iterator[str]:
    """Yield a fresh checkpoint directory, on the storage that the tables are on; those of killed
    runs go too.
    """
    base = os.path.join(os.path.abspath(directory), "bronze", "checkpoint")
    shutil.rmtree(base, ignore_errors=True)
    try:
        yield os.path.join(base, str(uuid4()))
    finally:
        shutil.rmtree(base, ignore_errors=True)
