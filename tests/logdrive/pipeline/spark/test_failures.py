"""What users see of Spark's failures: the cause, not the last line of a description of the
query.
"""

from pathlib import Path

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import CPickleSerializer
from pyspark.util import _load_from_socket

from bench.processes import free_port
from logdrive.errors import TransientError
from logdrive.pipeline.spark.failures import (
    WorkerStartError,
    convert_spark_failures,
    to_transient_error,
)

APPENDIX = """
=== Streaming Query ===
Identifier: [id = 26aed42b, runId = 5b41a4ef]
Current State: INITIALIZING
Thread State: RUNNABLE

Logical Plan:
+- ~StreamingDataSourceV2ScanRelation[stream#0, segment#1, offset#2L, data#3] logdrive
"""


def test_the_cause_stands_before_the_description_of_the_query() -> None:
    failure = to_transient_error(
        "the query failed", f"java.io.IOException: No space left{APPENDIX}"
    )
    assert str(failure) == "the query failed: java.io.IOException: No space left"
    assert not isinstance(failure, WorkerStartError)


def test_of_a_python_traceback_the_last_cause_is_told() -> None:
    text = (
        "Job aborted\nTraceback (most recent call last):\n  File x\nOSError: [Errno 28] No "
        "space left"
    )
    assert str(to_transient_error("it failed", f"{text}\n\nat Main{APPENDIX}")).endswith(
        "it failed: OSError: [Errno 28] No space left"
    )


@pytest.mark.parametrize(
    "text",
    [
        "Python worker failed to connect back.",
        (
            "java.net.SocketTimeoutException: Timed out while waiting for the Python worker "
            "to connect back"
        ),
        "[STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE] Streaming Runner initialization failed",
    ],
)
def test_a_worker_that_is_slow_to_start_can_be_told_from_other_failures(text: str) -> None:
    failure = to_transient_error("the query failed", text + APPENDIX, Path("tables/spark.log"))
    assert isinstance(failure, WorkerStartError)
    assert text in str(failure)
    assert str(failure).endswith("; see tables/spark.log for all of it")


def test_what_spark_raises_becomes_a_failure_that_may_be_tried_again() -> None:
    with (
        pytest.raises(TransientError, match=r"Spark failed: it broke; see spark\.log"),
        convert_spark_failures(Path("spark.log")),
    ):
        raise PySparkRuntimeError("it broke")


def test_results_that_the_jvm_no_longer_hands_over_may_be_collected_again() -> None:
    with (
        pytest.raises(TransientError, match=r"Spark failed: .*[Cc]onnect.*; see spark\.log"),
        convert_spark_failures(Path("spark.log")),
        _load_from_socket((free_port(), "secret"), CPickleSerializer()),
    ):
        pass


def test_what_spark_has_no_part_in_stays_as_it_is() -> None:
    with pytest.raises(UnboundLocalError), convert_spark_failures():
        raise UnboundLocalError


def test_what_stands_around_the_cause_is_never_taken_for_it() -> None:
    stack = """java.net.SocketTimeoutException: Timed out
\tat org.apache.spark.Main.run(Main.scala:3)
Driver stacktrace:
Thread State: RUNNABLE"""
    assert str(to_transient_error("it failed", stack)) == (
        "it failed: java.net.SocketTimeoutException: Timed out"
    )
    caused = """Job aborted
\tat a.B.c(B.scala:1)
Caused by: java.io.IOException: No such host
\t... 10 more"""
    assert str(to_transient_error("it failed", caused)) == (
        "it failed: java.io.IOException: No such host"
    )
