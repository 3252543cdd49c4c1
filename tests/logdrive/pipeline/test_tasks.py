"""What runs items in this process gives their results in order, and raises what one raised."""

import pytest

from logdrive.errors import StorageError
from logdrive.pipeline.tasks import InProcess, InThreads, Tasks


def work(item: int) -> int:
    if item < 0:
        raise StorageError(f"no {item}")
    return item * 2


@pytest.mark.parametrize("tasks", [InProcess(), InThreads(3)], ids=["process", "threads"])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_results_come_in_the_order_of_the_items(tasks: Tasks, count: int) -> None:
    assert tasks.run(work, range(count)) == [item * 2 for item in range(count)]


@pytest.mark.parametrize("tasks", [InProcess(), InThreads(3)], ids=["process", "threads"])
def test_an_error_of_ours_is_raised_as_it_is(tasks: Tasks) -> None:
    with pytest.raises(StorageError, match="no -1"):
        tasks.run(work, [1, -1, 2])
