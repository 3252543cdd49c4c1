"""Fills tables made from other tables beside the run that fills those, in the same thread."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Generic, Protocol, Self

from logdrive.pipeline.steps import Step, StepTables, run_steps


class OpenedTables(StepTables[Step], Protocol[Step]):
    """Tables that are filled in steps, and open for writing inside the context."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class StepFollower(Generic[Step]):
    """Fills *tables* whenever it is asked to; they are opened once there is something to read.

    They are open until the context ends. Opening them is part of a step: what the disk has no room
    for is tried again, as a step is.
    """

    def __init__(
        self,
        tables: OpenedTables[Step],
        stop: threading.Event,
        on_step: Callable[[Step], object],
        *,
        name: str,
        has_input: Callable[[], bool],
        on_open: Callable[[], object] = lambda: None,
        wait_for_room: bool = False,
    ) -> None:
        """*has_input* tells whether the tables that these are made from are there; *on_open* is
        called after these are opened. The rest is that of `run_steps`.
        """
        self._tables = tables
        self._stop = stop
        self._on_step = on_step
        self._name = name
        self._has_input = has_input
        self._on_open = on_open
        self._wait_for_room = wait_for_room
        # holds the tables
        self._held = ExitStack()
        self.is_open = False
        """True once they are open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._held.__exit__(kind, error, trace)

    def catch_up(self) -> None:
        """Run steps until nothing is new, unless the run is asked to stop.

        Does nothing where there is nothing to read yet. Raises as `run_steps` does.
        """
        if self._stop.is_set() or not (self.is_open or self._has_input()):
            return
        run_steps(
            self, self._stop, self._on_step, name=self._name, wait_for_room=self._wait_for_room
        )

    def next_step(self) -> Step | None:
        """Open the tables if they are not, and run a step: for `run_steps`."""
        if not self.is_open:
            self._held.enter_context(self._tables)
            self.is_open = True
            self._on_open()
        return self._tables.next_step()

    def reload_tables(self) -> None:
        """Read all state from the disk again after a step that failed: for `run_steps`."""
        if self.is_open:  # else they are opened by the next step
            self._tables.reload_tables()
