"""Failures of Spark as ours: the cause in one line, and the log that has the rest."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from logdrive.errors import TransientError

_LONGEST = 500  # characters of a cause
_APPENDIX = "=== Streaming Query ==="  # what follows describes the query, not the failure
_SLOW_WORKER = (
    "Python worker failed to connect back",
    "Timed out while waiting for the Python worker",
    "Python worker exited unexpectedly",
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE",
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE",
)


class WorkerStartError(TransientError):
    """Spark gave up waiting for its Python worker. On a busy machine another try goes through."""


@contextmanager
def convert_spark_failures(log: Path | None = None) -> Iterator[None]:
    """Raise what Spark raises within as a `TransientError` that says the cause and names *log*."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise to_transient_error("Spark failed", error, log) from error


def to_transient_error(what: str, error: Any, log: Path | None = None) -> TransientError:
    """Return the `TransientError` for *error*, as Spark raised it or a query ended with it."""
    reason = _reason(error)
    more = f"; {log} has the whole of it" if log is not None else ""
    if any(sign in reason for sign in _SLOW_WORKER):
        return WorkerStartError(
            f"{what}: Spark's Python worker did not start in time ({reason}){more}"
        )
    return TransientError(f"{what}: {reason}{more}")


def _reason(error: Any) -> str:
    """Return the line that says what happened: in Python, the last of the innermost traceback."""
    text = _text(error).split(_APPENDIX)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ours = ("logdrive.", "OSError", "MemoryError")
    causes = [line for line in lines if line.startswith(ours) or "Error: " in line]
    return (causes or lines or ["it does not say why"])[-1][:_LONGEST]


def _text(error: Any) -> str:
    """Return all that *error* says; an error of the JVM is asked there, for its innermost cause."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return str(error)
    try:
        while (cause := java.getCause()) is not None:
            java = cause
        return str(java.toString())
    except OSError:  # the JVM is gone
        return "the JVM ended"
