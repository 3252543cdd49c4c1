"""Where a micro-batch runs, and how large it may be: a trickle costs no Spark."""

import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest

from logdrive.errors import TransientError
from logdrive.model.units import MIB
from logdrive.pipeline.choose_tasks import TaskChooser
from logdrive.pipeline.metrics import RunMetrics
from logdrive.pipeline.plan import Plan
from logdrive.pipeline.run import tasks_for
from logdrive.pipeline.spark.background import BackgroundSpark
from logdrive.pipeline.spark.failures import SparkStartError
from logdrive.pipeline.spark.tasks import SparkTasks
from logdrive.pipeline.tasks import InProcess, InThreads

DRIVER = 16 * MIB
MOST = 512 * MIB


class Start:
    """A start of Spark that ends when `go` is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.error = error

    def __call__(self, cancel: threading.Event) -> AbstractContextManager[Any]:
        self.begun.set()
        while not self.go.wait(0.01):
            if cancel.is_set():
                raise SparkStartError("given up")
        if self.error is not None:
            raise self.error
        return nullcontext(object())


def chooser(spark: Any, driver_bytes: int = DRIVER) -> TaskChooser:
    return TaskChooser(spark, driver_bytes, MOST, threading.Event())


def test_a_trickle_stays_in_the_driver_and_never_starts_spark() -> None:
    start = Start()
    chosen = chooser(BackgroundSpark(start))
    for _ in range(10_000):
        chosen.note(MIB, more=False)
        assert isinstance(chosen.choose(MIB), InProcess)
    assert not start.begun.is_set()


def test_micro_batches_begin_small_and_grow_while_more_waits() -> None:
    chosen, limits = chooser(InProcess()), []
    for _ in range(6):
        limits.append(chosen.limit // MIB)
        chosen.note(chosen.limit, more=True)
    assert limits == [4, 16, 64, 256, 512, 512]
    chosen.note(MIB, more=False)
    assert chosen.limit == 4 * MIB


def test_a_stream_that_was_caught_up_with_goes_on_with_micro_batches_of_its_size() -> None:
    chosen, limits = chooser(InProcess()), []
    for size in (3, 50, 300, 20, 1):
        chosen.note(size * MIB, more=False)
        limits.append(chosen.limit // MIB)
    assert limits == [12, 200, 512, 80, 4]


def test_where_much_waits_spark_starts_in_the_background_and_then_takes_what_is_large() -> None:
    start = Start()
    spark = BackgroundSpark(start)
    chosen, read = chooser(spark), 0
    try:
        while not start.begun.wait(0.01):
            assert chosen.limit <= DRIVER
            assert isinstance(chosen.choose(chosen.limit), InProcess)
            read += chosen.limit
            chosen.note(chosen.limit, more=True)
            assert read <= 32 * DRIVER
        assert isinstance(chosen.choose(DRIVER), InProcess), "not up yet"
        start.go.set()
        assert isinstance(spark.wait_until_up(threading.Event()), SparkTasks)
        assert isinstance(chosen.choose(DRIVER), SparkTasks)
        assert isinstance(chosen.choose(DRIVER - 1), InProcess)
        chosen.note(DRIVER, more=True)
        assert chosen.limit > DRIVER
    finally:
        start.go.set()
        spark.close()


def test_without_bytes_for_the_driver_all_waits_for_spark_unless_told_to_stop() -> None:
    start, stop = Start(), threading.Event()
    spark = BackgroundSpark(start)
    chosen = TaskChooser(spark, 0, MOST, stop)
    stop.set()
    assert chosen.choose(1) is None
    assert start.begun.wait(10)
    stop.clear()
    start.go.set()
    try:
        assert isinstance(chosen.choose(1), SparkTasks)
    finally:
        spark.close()


def test_a_start_that_fails_is_told_and_can_be_tried_again() -> None:
    start = Start(TransientError("no room"))
    start.go.set()
    spark = BackgroundSpark(start)
    for _ in range(2):
        with pytest.raises(TransientError, match="no room"):
            chooser(spark, driver_bytes=0).choose(1)
    start.error = None
    try:
        assert isinstance(chooser(spark, driver_bytes=0).choose(1), SparkTasks)
    finally:
        spark.close()


def test_spark_that_is_closed_amid_its_start_gives_up() -> None:
    start = Start()
    spark = BackgroundSpark(start)
    spark.begin()
    assert start.begun.wait(10)
    spark.close()
    assert not spark.is_up


@pytest.mark.parametrize(
    ("master", "gateway", "kind"),
    [(None, None, InThreads), ("local[2]", None, BackgroundSpark), (None, "1", BackgroundSpark)],
)
def test_spark_is_for_those_who_name_a_master_or_submit(
    monkeypatch: pytest.MonkeyPatch, master: str | None, gateway: str | None, kind: type
) -> None:
    if gateway is not None:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", gateway)
    plan = Plan(uri="file:///s#a/b", directory="/t", master=master)
    with tasks_for(plan, "logdrive", "spark.log", nullcontext, RunMetrics()) as tasks:
        assert isinstance(tasks, kind)
