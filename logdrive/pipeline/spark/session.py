"""Starts Spark: finds Java, keeps Spark quiet, and runs it locally by default."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from logdrive.pipeline.spark.failures import convert_spark_failures, to_start_error
from logdrive.pipeline.spark.java import find_java_home
from logdrive.pipeline.spark.jvm_lifetime import ends_early, make_bound_java_home
from logdrive.pipeline.spark.scratch import open_scratch_directory
from logdrive.pipeline.tables.installed import TABLES_PACKAGES, require_packages

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
_OF_ALL = {
    "spark.sql.session.timeZone": "UTC",
    # the default manager forks 60 processes per micro-batch
    "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINTS,
    # a row is megabytes of a segment, not a line
    "spark.sql.execution.arrow.maxRecordsPerBatch": "16",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "logdrive.pipeline.spark.worker_daemon",
}
"""Settings of every session, also in a JVM that spark-submit has started."""
DEFAULT_MEMORY = "2g"
_PACKAGES = (*TABLES_PACKAGES, "pandas", "pyspark")

_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java options of a local session.

The JVM only passes Arrow batches on, so optimizing its code costs more than it saves: with these
options an audit takes half the CPU.
"""


def is_submitted() -> bool:
    """Return whether `spark-submit` has started this process, and with it Spark's JVM."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def require_spark(user: str = "Spark") -> None:
    """Raise `PackagesMissingError` if the `spark` extra, which *user* needs, is not installed.

    *user* is an option, or a key of the configuration.
    """
    require_packages(_PACKAGES, "spark", user)


@contextmanager
def open_spark_session(
    name: str,
    *,
    master: str | None = None,
    memory: str = DEFAULT_MEMORY,
    log: Path | None = None,
    level: str = "error",
) -> Iterator[Any]:
    """Yield a `SparkSession`, stopped after the context; see `open_spark_context`."""
    opened = open_spark_context(name, master=master, memory=memory, log=log, level=level)
    with opened as context:
        from pyspark.sql import SparkSession

        with convert_spark_failures(log):
            session = SparkSession(context)
        try:
            yield session
        finally:
            session.stop()  # the session, and not the JVM that it runs in


@contextmanager
def open_spark_context(
    name: str,
    *,
    master: str | None = None,
    memory: str = DEFAULT_MEMORY,
    log: Path | None = None,
    level: str = "error",
    cancel: threading.Event | None = None,
) -> Iterator[Any]:
    """Yield a `SparkContext`, stopped after the context; a process can have one at a time.

    *master* is local by default, with as many cores as this process may use. Messages of Spark and
    its workers go to the file *log*, or to standard error. A start that is still going on when
    *cancel* is set is given up. The thread that enters the context must outlive it: the JVM ends
    with that thread. In a process of `spark-submit` its JVM is used, with its settings: *memory*
    and *log* are without effect, and *master* is its own by default.
    Raises `SparkStartError`, `PackagesMissingError`, `NoJavaError`.
    """
    require_spark()
    # workers must run this Python, not the python3 of PATH
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_submitted():
        with _submitted_context(name, master) as context:
            yield context
        return
    java = find_java_home(os.environ)
    with open_scratch_directory() as place:
        values = spark_settings(name, master or _local_master(), memory, str(place), level)
        home = make_bound_java_home(java, place)
        with _environment("JAVA_HOME", str(home)), ends_early(home, cancel):
            context = _start_context(values, log)
        try:
            with _messages_in(log):
                yield context
        finally:
            gateway = context._gateway
            with suppress(Exception):  # of a JVM that was killed: PySpark forgets only the JVM then
                context.stop()
            context.stop()
            _stop_jvm(gateway)


@contextmanager
def _submitted_context(name: str, master: str | None) -> Iterator[Any]:
    """Yield a `SparkContext` in the JVM of `spark-submit`, which ends after this process."""
    values = {"spark.app.name": name} | _OF_ALL
    context = _start_context(values | ({"spark.master": master} if master else {}), None)
    try:
        yield context
    finally:
        with suppress(Exception):  # its JVM was killed
            context.stop()


def spark_settings(name: str, master: str, memory: str, place: str, level: str) -> dict[str, str]:
    """Return Spark's configuration, as far as it differs from the defaults.

    Writes log4j2.properties into the directory *place*, which also gets Spark's temporary files.
    """
    properties = Path(place, "log4j2.properties")
    properties.write_text(_LOGGING.format(level=level))
    values = {
        "spark.app.name": name,
        "spark.master": master,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={properties.as_uri()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    } | _OF_ALL
    if master.startswith("local"):
        values |= {
            "spark.driver.extraJavaOptions": (
                f"{values['spark.driver.extraJavaOptions']} {_SHORT_LIVED}"
            ),
            "spark.driver.host": "127.0.0.1",  # works even if the host name does not resolve
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(_cores()),
            # list files in the driver, not by a job with a task for each
            "spark.sql.sources.parallelPartitionDiscovery.threshold": "10000",
            "spark.local.dir": place,
            "spark.sql.warehouse.dir": os.path.join(place, "warehouse"),
        }
    return values


def _start_context(values: dict[str, str], log: Path | None) -> Any:
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    # without defaults: properties of the Java system would change the session
    conf = SparkConf(loadDefaults=False).setAll(list(values.items()))
    gateway = None
    try:
        with open(log or os.devnull, "ab") as file:
            gateway = launch_gateway(conf, {"stderr": file, "stdout": file} if log else None)
        return SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, Py4JError, OSError) as error:
        if gateway is not None:
            _stop_jvm(gateway)
        raise to_start_error(error, log) from error


@contextmanager
def _messages_in(log: Path | None) -> Iterator[None]:
    """Let messages of PySpark's own, in this process, go to *log*: tracebacks of lost connections.

    Without *log* they go where the process lets them go.
    """
    if log is None:
        yield
        return
    handler = logging.FileHandler(log)
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        handler.close()


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable inside the context, for the processes started there."""
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
    """End the JVM, so that a later session of this process starts another one.

    With the same JVM a session could not change memory or Java.
    """
    from pyspark import SparkContext

    if gateway.proc is None:  # this process did not start the JVM
        return
    with suppress(Exception):  # likewise
        gateway.shutdown()
    gateway.proc.stdin.close()  # tells the JVM to end
    gateway.proc.wait(timeout=30)
    # PySpark would use these again for the next session
    SparkContext._gateway = SparkContext._jvm = None


def _local_master() -> str:
    return f"local[{_cores()},3]"  # three attempts per task; local[N] makes one


def _cores() -> int:
    return len(os.sched_getaffinity(0))
