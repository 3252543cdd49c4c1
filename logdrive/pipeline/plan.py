"""What a run of the pipeline is asked to do, and what it has done."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from logdrive.address import iggy_address
from logdrive.host.transport import ClientTls
from logdrive.model.units import MIB
from logdrive.pipeline.bronze.follower import TableForm
from logdrive.pipeline.bronze.writer import CommitCounts
from logdrive.pipeline.read.consumer_position import DEFAULT_READER
from logdrive.pipeline.read.start import Start
from logdrive.pipeline.spark.session import DEFAULT_MEMORY
from logdrive.pipeline.tables.files import DEFAULT_COMPRESSION
from logdrive.services.pravega.client.controller import Login

MOST_BYTES = 512 * MIB
DRIVER_BYTES = 16 * MIB
TRIGGER_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The settings of one run."""

    uri: str = field(repr=False)  # of the stream to read; Iggy's may have a password
    directory: str  # of the tables
    start: Start | None = None  # when new tables begin; None: with the stream
    replaced_store: bool = False  # go on at another store than that of the tables
    once: bool = False  # end once everything that was stored at the start has been read
    max_bytes_per_batch: int = MOST_BYTES  # raw bytes of a micro-batch, at most
    driver_bytes: int = DRIVER_BYTES  # raw bytes from which on a micro-batch is in several tasks
    trigger_seconds: float = TRIGGER_SECONDS  # between two looks for new data, unless *once*
    master: str | None = None  # Spark's; None: without Spark, unless by spark-submit
    memory: str = DEFAULT_MEMORY  # of the JVM, as Java's -Xmx writes it
    compression: str = DEFAULT_COMPRESSION  # of the parquet files
    forms: tuple[TableForm, ...] = ()  # in which the tables are shown, besides Delta
    tls: ClientTls | None = None  # None: a connection without TLS
    login: Login | None = None  # at a controller that requires one
    token: str = field(default="", repr=False)  # access token for S2; "": the environment's
    local_reads: bool = True  # read the files of a store on this host directly
    metrics: str = ""  # host:port where Prometheus fetches figures; "" for nowhere
    reader: str = DEFAULT_READER  # name of the position that retention waits for; "" for none

    @property
    def shown_uri(self) -> str:
        """The URI for messages, without a password."""
        is_iggy = self.uri.partition(":")[0].lower() == "iggy"
        return iggy_address(self.uri).uri if is_iggy else self.uri


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """What one micro-batch was."""

    rows: int  # of `events`
    tasks: int
    place: str  # where its tasks ran: `driver` or `spark`
    task_seconds: float  # of the slowest task
    commit_seconds: float

    def as_json(self) -> dict[str, int | float | str]:
        """Return what a line of the log says of it."""
        return {
            "rows": self.rows,
            "tasks": self.tasks,
            "place": self.place,
            "task_seconds": round(self.task_seconds, 3),
            "commit_seconds": round(self.commit_seconds, 3),
        }


@dataclass(slots=True)
class RunResult:
    """What a run has added to the tables so far. Bytes are stored bytes."""

    micro_batches: int = 0
    batches: int = 0
    events: int = 0
    bytes: int = 0
    offsets: int = 0  # as `bytes`, in what the stream's offsets count: bytes, or records
    there: int = 0  # offsets that were stored but not read when the run began
    removed: int = 0  # offsets that were removed before they were read, as this run has found
    last: MicroBatch | None = None  # the last micro-batch that was committed

    @property
    def waiting(self) -> int:
        """How many of the offsets that were there at the beginning are still to be read."""
        return max(0, self.there - self.offsets)

    def as_json(self) -> dict[str, int]:
        """Return what `--json` prints; `there`, `removed` and `waiting` count offsets."""
        values = asdict(self) | {"waiting": self.waiting}
        del values["offsets"], values["last"]
        return values

    def add_commit(self, counts: CommitCounts, last: MicroBatch) -> None:
        """Count one micro-batch that was committed, and keep what it was."""
        self.last = last
        self.micro_batches += 1
        self.batches += counts.batches
        self.events += counts.events
        self.bytes += counts.bytes
        self.offsets += counts.offsets


ProgressCallback = Callable[[RunResult], None]
"""Called after each commit that added something, in the thread that committed."""
