"""An audit whose rows Spark reads: for tables that a cluster holds."""

import functools
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from logdrive.cli.output import print_error
from logdrive.cli.pipeline_progress import show_spark_start
from logdrive.cli.tables.master import require_master

if TYPE_CHECKING:
    from logdrive.pipeline.audit.audit import Verdict

_ATTEMPTS: Final = 2  # to start Spark, and to read the rows with it
_WAIT_SECONDS: Final = 1.0  # between them


def audit_with_spark(directory: str, master: str | None, *, full: bool) -> "Verdict":
    """Audit the tables in *directory* with Spark at *master*, or in this process; see `audit`.

    If Spark does not start, or a worker of it, that is tried once more: on a busy machine it may
    take too long. Each failure names the file with Spark's messages.
    """
    from logdrive.pipeline.spark.session import is_submitted, open_spark_session, require_spark

    require_spark("--engine spark")
    require_master(master)
    from logdrive.net.retry import retry_blocking, wait_fixed
    from logdrive.pipeline.audit.audit import audit
    from logdrive.pipeline.audit.engines.spark import SparkEngine
    from logdrive.pipeline.spark.failures import SparkStartError, convert_spark_failures

    with ExitStack() as held:
        # spark-submit has opened the file of its JVM's messages
        log = None if is_submitted() else held.enter_context(open_spark_log(directory))
        place = None if log is None else log.path

        def start() -> Any:
            with show_spark_start():
                opened = open_spark_session("logdrive audit", master=master, log=place)
                return held.enter_context(opened)

        def read(spark: Any) -> "Verdict":
            with convert_spark_failures(place):
                return audit(directory, functools.partial(SparkEngine, spark, full=full), full=full)

        def tell(error: BaseException, _: float) -> None:
            if log is not None:
                log.is_named = True
            print_error(f"{error}; trying once more")

        twice = retry_blocking(
            SparkStartError,
            sleep=time.sleep,
            wait=wait_fixed(_WAIT_SECONDS),
            give_up=lambda attempts: attempts == _ATTEMPTS,
            on_failure=tell,
        )
        return twice(read, twice(start))


@dataclass(slots=True)
class SparkLog:
    """A file that Spark's messages are appended to."""

    path: Path
    is_named: bool = False
    """Whether a message has named it, so that it must stay."""


@contextmanager
def open_spark_log(directory: str) -> Iterator[SparkLog]:
    """Yield spark.log in *directory*.

    Where that can't be written, as by a user who may only read the tables, it is a new file among
    the temporary ones, which stays if it was named, or the context fails. Raises OSError.
    """
    log = Path(directory, "spark.log")
    try:
        log.open("ab").close()
    except OSError:
        descriptor, name = tempfile.mkstemp(prefix="logdrive-spark-", suffix=".log")
        os.close(descriptor)
    else:
        yield SparkLog(log)
        return
    temporary = SparkLog(Path(name))
    yield temporary
    if not temporary.is_named:
        os.unlink(name)
