"""Converts failures of Spark to our exceptions: the cause in one line, and where the rest is."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logdrive.errors import TransientError

_LONGEST = 500  # limit on the characters of a cause
_APPENDIX = "=== Streaming Query ==="  # what follows it describes the query, not the failure
# texts of errors that mean that a Python worker did not start in time
_SLOW_WORKER = (
    "Python worker failed to connect back",
    "Timed out while waiting for the Python worker",
    "Python worker exited unexpectedly",
    "while reading the port number from",
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE",
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE",
)


class SparkStartError(TransientError):
    """Spark, or a worker of it, did not start. On a busy machine another try may succeed."""


class SparkEndedError(SparkStartError):
    """Spark ended by itself, as when its JVM was killed. It can be started again."""


class WorkerStartError(SparkStartError):
    """A Python worker of Spark's did not start, or not in time."""


@contextmanager
def convert_spark_failures(log: Path | None = None) -> Iterator[None]:
    """Convert exceptions of Spark in the context to `TransientError`; see `to_transient_error`."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    failures = (PySparkException, Py4JError, EOFError, ConnectionError)
    try:
        yield
    except failures as error:
        raise to_transient_error("Spark failed", error, log) from error
    except UnboundLocalError as error:
        # PySpark closes a socket that it could not open: its own error hides the failure
        hidden = error.__context__
        if not isinstance(hidden, failures):
            raise
        raise to_transient_error("Spark failed", hidden, log) from hidden


def to_start_error(error: Any, log: Path | None) -> SparkStartError:
    """Return the failure of Spark's start, *error*; *log* is the file with Spark's messages."""
    where = f"see {log}" if log else "see its messages above"
    return SparkStartError(f"Spark did not start: {_reason(error)}; {where}")


def to_transient_error(what: str, error: Any, log: Path | None = None) -> TransientError:
    """Return a `TransientError` for *error*, which Spark raised or a query ended with.

    Its text begins with *what* failed, and names *log*, the file with Spark's messages.
    """
    reason = _reason(error)
    more = f"; see {log} for all of it" if log is not None else ""
    if any(sign in reason for sign in _SLOW_WORKER):
        return WorkerStartError(
            f"{what}: a Python worker of Spark's did not start ({reason}){more}"
        )
    return TransientError(f"{what}: {reason}{more}")


def _reason(error: Any) -> str:
    """Return the line with the cause: in Python, the last one of the innermost traceback."""
    text = _text(error).split(_APPENDIX)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # a traceback ends with the exception; Spark puts its own lines around it
    ours = ("logdrive.", "OSError", "MemoryError")
    causes = [line for line in lines if line.startswith(ours) or "Error: " in line]
    if not causes:  # Java puts the innermost cause last, and what led to it in lines of their own
        causes = [line for line in lines if line.startswith("Caused by: ")] or lines[:1]
    return (causes or ["Spark gives no reason"])[-1].removeprefix("Caused by: ")[:_LONGEST]


def _text(error: Any) -> str:
    """Return the text of *error*; for an error of the JVM, that of its innermost cause."""
    java = getattr(error, "java_exception", None)
    if java is None:  # raised in Python
        return str(error)
    try:
        while (cause := java.getCause()) is not None:
            java = cause
        return str(java.toString())
    except OSError:  # the JVM is gone
        return "its JVM has ended"
