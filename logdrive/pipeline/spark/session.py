"""A Spark session for one process: Java found, quiet, on this machine unless told otherwise."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logdrive.errors import LogdriveError, TransientError
from logdrive.pipeline.spark.failures import convert_spark_failures
from logdrive.pipeline.spark.java import find_java_home
from logdrive.pipeline.spark.jvm_lifetime import make_bound_java_home
from logdrive.pipeline.spark.scratch import open_scratch_directory

_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yyyy-MM-dd HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
DEFAULT_MEMORY = "2g"
_PACKAGES = ("deltalake", "jinja2", "numpy", "pandas", "pyarrow", "pyspark")


_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The JVM only hands Arrow batches on: compiling its own code well costs more than that saves (an
audit takes half the CPU).
"""


class SparkMissingError(LogdriveError):
    """The pipeline's packages are not installed."""


def require_spark() -> None:
    """Raise `SparkMissingError` where the `spark` extra is not installed."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise SparkMissingError(
            f"the pipeline needs {', '.join(missing)}: pip install 'logdrive[spark]'"
        )


@contextmanager
def open_spark_session(
    name: str,
    *,
    master: str | None = None,
    memory: str = DEFAULT_MEMORY,
    log: Path | None = None,
    level: str = "error",
) -> Iterator[Any]:
    """Yield a `SparkSession`, stopped at the end; one at a time in a process.

    *master* is local by default, with a core for each that this process may use. What Spark and its
    workers say goes to the file *log*, or to standard error. Raises `TransientError` where Spark
    does not start.
    """
    require_spark()
    java = find_java_home(os.environ)
    # not the python3 that PATH names
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with open_scratch_directory() as place:
        values = spark_settings(name, master or _local_master(), memory, str(place), level)
        with _environment("JAVA_HOME", str(make_bound_java_home(java, place))):
            spark = _start_session(values, log)
        try:
            yield spark
        finally:
            gateway = spark.sparkContext._gateway
            spark.stop()
            _stop_jvm(gateway)


def spark_settings(name: str, master: str, memory: str, place: str, level: str) -> dict[str, str]:
    """Return Spark's configuration, its files in *place*: what differs from its defaults, with the
    reason where it is not plain.
    """
    logging = Path(place, "log4j2.properties")
    logging.write_text(_LOGGING.format(level=level))
    values = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # the default one forks 60 processes a micro-batch
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
        # rows here are megabytes of a segment, not lines
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
        "spark.python.unix.domain.socket.enabled": "true",
    }
    if master.startswith("local"):
        values |= {
            "spark.driver.extraJavaOptions": (
                f"{values['spark.driver.extraJavaOptions']} {_SHORT_LIVED}"
            ),
            "spark.driver.host": "127.0.0.1",  # a machine whose own name does not resolve works too
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(_cores()),
            # files are looked at here, not by a job of as many tasks
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
            "spark.local.dir": place,
            "spark.sql.warehouse.dir": os.path.join(place, "warehouse"),
        }
    return values


def _start_session(values: dict[str, str], log: Path | None) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    conf = SparkConf(loadDefaults=False).setAll(list(values.items()))
    try:
        with open(log or os.devnull, "ab") as file:
            gateway = launch_gateway(conf, {"stderr": file, "stdout": file} if log else None)
    except (PySparkException, OSError) as error:
        where = f"{log} says why" if log else "it says why above"
        raise TransientError(f"Spark did not start; {where}: {error}") from error
    with convert_spark_failures(log):
        return SparkSession(SparkContext(conf=conf, gateway=gateway))


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set a variable for the processes started within."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _stop_jvm(gateway: Any) -> None:
    """End the JVM and let a later session of this process start another: it could not change its
    memory or its Java.
    """
    from pyspark import SparkContext

    gateway.shutdown()
    if gateway.proc is not None:
        gateway.proc.stdin.close()
        gateway.proc.wait(timeout=30)
    SparkContext._gateway = SparkContext._jvm = None


def _local_master() -> str:
    return f"local[{_cores()},3]"  # a task may fail twice; plain local[N] never tries again


def _cores() -> int:
    return len(os.sched_getaffinity(0))
