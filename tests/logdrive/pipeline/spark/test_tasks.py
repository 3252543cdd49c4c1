"""Tasks of Spark: results in order, errors of ours as they are, and workers that die."""

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from logdrive.errors import ConfigError, Mistake, StorageError, TransientError
from logdrive.pipeline.spark.tasks import SparkTasks
from logdrive.pipeline.tasks import StoppedError, stopping_on

pytestmark = pytest.mark.spark


def double(number: int) -> int:
    return 2 * number


def fail(kind: str) -> None:
    if kind == "ours":
        raise StorageError("7 bytes at 9 are no whole batch")
    if kind == "with parts":
        raise ConfigError("file", [Mistake("key", "value", "remedy")])
    raise OSError(28, "No space left on device")


def die_at_first(mark: Path) -> int:
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return 5
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def wait_for_ever(begun: Path) -> None:
    begun.touch()
    while True:
        time.sleep(0.1)


@pytest.fixture
def failed() -> list[int]:
    return []


@pytest.fixture
def tasks(spark: Any, failed: list[int]) -> SparkTasks:
    return SparkTasks(spark.sparkContext, Path("spark.log"), failed.append)


def test_results_come_in_the_order_of_the_items(tasks: SparkTasks, failed: list[int]) -> None:
    assert tasks.run(double, range(7)) == [0, 2, 4, 6, 8, 10, 12]
    assert tasks.run(double, []) == []
    assert tasks.slots >= 1
    assert tasks.is_alive
    assert failed == []


def test_tasks_that_run_when_the_run_is_to_stop_are_cancelled(
    tasks: SparkTasks, tmp_path: Path
) -> None:
    stop, begun = threading.Event(), tmp_path / "begun"

    def stop_amid() -> None:
        while not begun.exists():
            time.sleep(0.01)
        stop.set()

    stopping = threading.Thread(target=stop_amid)
    stopping.start()
    with stopping_on(stop), pytest.raises(StoppedError):
        tasks.run(wait_for_ever, [begun])
    stopping.join()
    assert tasks.run(double, [1]) == [2]


def test_an_error_of_ours_is_raised_as_it_is_and_not_repeated(
    tasks: SparkTasks, failed: list[int]
) -> None:
    with pytest.raises(StorageError, match=r"^7 bytes at 9 are no whole batch$"):
        tasks.run(fail, ["ours"])
    with pytest.raises(TransientError, match=r"^file: key = value: remedy$"):
        tasks.run(fail, ["with parts"])
    assert failed == []


def test_another_error_is_told_in_one_line_with_the_log_that_has_all_of_it(
    tasks: SparkTasks, failed: list[int]
) -> None:
    with pytest.raises(TransientError) as caught:
        tasks.run(fail, ["disk"])
    text = "Spark failed: OSError: [Errno 28] No space left on device; see spark.log for all of it"
    assert str(caught.value) == text
    assert sum(failed) == 3, "each attempt is counted"


def test_a_worker_that_is_killed_costs_one_attempt(
    tasks: SparkTasks, failed: list[int], tmp_path: Path
) -> None:
    assert tasks.run(die_at_first, [tmp_path / "mark"]) == [5]
    assert sum(failed) == 1
