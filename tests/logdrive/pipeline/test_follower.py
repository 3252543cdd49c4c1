"""Tables filled beside a run: opened when there is something to read, and told of its error."""

import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from logdrive.pipeline.follower import StepFollower
from logdrive.pipeline.tables.failures import FullDiskError
from tests.logdrive.pipeline.stopping import NeverSet


class Tables:
    """They have *steps* steps; the disk is full for the first *refused* times of opening them."""

    def __init__(self, steps: int, refused: int = 0) -> None:
        self._left, self._refused = steps, refused
        self.calls: list[object] = []

    def __enter__(self) -> Self:
        self._refused -= 1
        if self._refused >= 0:
            raise FullDiskError("no room")
        self.calls.append("open")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.calls.append(error)

    def reload_tables(self) -> None:
        self.calls.append("reload")

    def next_step(self) -> int | None:
        self._left -= 1
        return self._left if self._left >= 0 else None


def follow(
    tables: Tables, stop: threading.Event, taken: list[int], *, has_input: bool = True
) -> StepFollower[int]:
    return StepFollower(
        tables,
        stop,
        taken.append,
        name="fakes",
        has_input=lambda: has_input,
        wait_for_room=True,
    )


def test_tables_are_opened_once_there_is_something_to_read_and_told_of_the_error_at_the_end() -> (
    None
):
    tables, taken, error = Tables(2), list[int](), KeyError()
    with follow(tables, threading.Event(), taken, has_input=False) as follower:
        follower.catch_up()
    assert (tables.calls, taken) == ([], [])

    with suppress(KeyError), follow(tables, threading.Event(), taken) as follower:
        follower.catch_up()
        follower.catch_up()
        assert (tables.calls, taken) == (["open"], [1, 0])
        raise error
    assert tables.calls == ["open", error]


def test_tables_that_a_full_disk_keeps_from_being_opened_are_opened_later() -> None:
    tables, stop, taken = Tables(1, refused=2), NeverSet(), list[int]()
    with follow(tables, stop, taken) as follower:
        follower.catch_up()
    assert stop.count == 2
    assert (tables.calls, taken) == (["open", None], [0])


def test_nothing_is_opened_for_a_run_that_is_to_stop() -> None:
    tables, stop = Tables(1), threading.Event()
    stop.set()
    with follow(tables, stop, []) as follower:
        follower.catch_up()
    assert tables.calls == []
