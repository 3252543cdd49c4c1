"""What the operator of a pipeline may set: parsed once at start, never changed.

`config/pipeline.toml` explains it.
"""

import os.path
from typing import Annotated, Literal

import msgspec

from logdrive.address import host_port
from logdrive.config.bounds import checked
from logdrive.net.settings import ClientTlsConfig
from logdrive.pipeline.bronze.follower import TableForm
from logdrive.pipeline.plan import DRIVER_BYTES, MOST_BYTES, TRIGGER_SECONDS
from logdrive.pipeline.read.consumer_position import DEFAULT_READER
from logdrive.pipeline.read.start import parse_start
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.spark.master import check_master
from logdrive.services.pravega.client.login import LoginConfig


def _check_target(path: str) -> None:
    """Refuse a path that means something else in every working directory."""
    if not os.path.isabs(path):
        raise ValueError("to: the directory must be absolute, as in /data/logs")


def _check_start(start: str) -> None:
    try:
        parse_start(start)
    except ValueError as error:
        raise ValueError(f"start: {error}") from error


def _check_master(url: str) -> None:
    """Refuse a master that Spark would not know, once it is started."""
    try:
        check_master(url or "local")
    except ValueError as error:
        raise ValueError(f"master: {error}") from error


class PathsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [pipeline] table: which stream becomes which tables, in what steps."""

    source: str = msgspec.field(name="from")  # URI of the stream
    target: Annotated[str, checked(_check_target)] = msgspec.field(name="to")  # of the tables
    # when new tables begin: a time or an age; None: with the stream
    start: Annotated[str, checked(_check_start)] | None = None
    max_bytes_per_batch: Annotated[int, msgspec.Meta(ge=1 << 20)] = MOST_BYTES  # raw bytes
    trigger_seconds: Annotated[float, msgspec.Meta(gt=0, le=86400)] = TRIGGER_SECONDS
    compression: Literal["snappy", "zstd", "lz4", "none"] = "snappy"  # of the parquet files
    local_reads: bool = True  # read the files of a store on this host directly
    reader: str = DEFAULT_READER  # name of the position that retention waits for; "" for none
    token: Annotated[str, msgspec.Meta(min_length=1)] | None = None  # access token for S2

    def __post_init__(self) -> None:
        """Refuse a relative path, and what is no start."""
        _check_target(self.target)
        if self.start is not None:
            _check_start(self.start)


class SparkConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [spark] table. Without *master* the work is done without Spark."""

    master: Annotated[str, checked(_check_master)] | None = None
    memory: Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]*[mg]$")] = "2g"
    driver_bytes: Annotated[int, msgspec.Meta(ge=0)] = DRIVER_BYTES  # raw bytes

    def __post_init__(self) -> None:
        """Refuse a master that Spark would not know."""
        if self.master is not None:
            _check_master(self.master)


class TablesConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [tables] table: how others may read the bronze tables, besides as Delta."""

    iceberg: bool = False
    parquet: bool = False

    @property
    def forms(self) -> tuple[TableForm, ...]:
        """What the tables are shown as."""
        iceberg: tuple[TableForm, ...] = ("iceberg",) if self.iceberg else ()
        return (*iceberg, "parquet") if self.parquet else iceberg


class MetricsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [metrics] table: where Prometheus fetches figures."""

    address: Annotated[str, checked(host_port)]  # host:port

    def __post_init__(self) -> None:
        """Refuse a malformed address."""
        host_port(self.address)


class GoldConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [gold] table. A run that fills gold has to fill silver, too."""

    enabled: bool = False  # count in gold what `pipeline run` adds to silver


class DerivedConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A pipeline.toml as commands read it that have bronze already: `silver`, `rebuild`.

    *tls* is for a face of the store that asks for certificates, *login* for a controller that asks
    for users.
    """

    pipeline: PathsConfig | None = None
    spark: SparkConfig = SparkConfig()
    tables: TablesConfig = TablesConfig()
    metrics: MetricsConfig | None = None
    silver: SilverConfig = SilverConfig()
    gold: GoldConfig = GoldConfig()
    tls: ClientTlsConfig | None = None
    login: LoginConfig | None = None


class PipelineConfig(DerivedConfig, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole pipeline.toml, which names the stream and the tables."""

    pipeline: PathsConfig
