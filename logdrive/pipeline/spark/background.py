"""Spark, started in the background: micro-batches go on in this process until it is up."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from logdrive.pipeline.spark.tasks import SparkTasks

_POLL_SECONDS = 0.1  # between looks at whether the run is to stop

Opening = Callable[[threading.Event], AbstractContextManager[Any]]
"""Opens a `SparkContext`; gives up once the event is set."""


class BackgroundSpark:
    """Starts Spark when it is asked to, in a thread, and stops it with `close`.

    The thread lives as long as Spark, since the JVM ends with the thread that started it.
    """

    def __init__(
        self,
        opening: Opening,
        log: Path | None = None,
        starting: Callable[[], AbstractContextManager[None]] = nullcontext,
        on_failed_attempts: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Start Spark by *opening*, inside the context *starting*; *log* has Spark's messages.

        *on_failed_attempts* is as for `SparkTasks`.
        """
        self._opening = opening
        self._log = log
        self._starting = starting
        self._on_failed_attempts = on_failed_attempts
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()  # set: Spark is to be stopped, or not to be started
        self._tasks: Future[SparkTasks] = Future()

    def begin(self) -> None:
        """Let Spark be started, if it is not yet. Returns at once."""
        if self._thread is None:
            self._ended, self._tasks = threading.Event(), Future()
            self._thread = threading.Thread(
                target=self._hold, args=(self._ended, self._tasks), name="logdrive-spark"
            )
            self._thread.start()

    @property
    def is_up(self) -> bool:
        """True once the start has ended, well or not: `wait_until_up` returns at once."""
        return self._tasks.done()

    def wait_until_up(self, stop: threading.Event) -> SparkTasks | None:
        """Return Spark's tasks once it is up, or None if *stop* is set before.

        Raises what ended the start, `SparkStartError` and others; after that it can begin again.
        """
        self.begin()
        while not stop.is_set():
            if not wait([self._tasks], _POLL_SECONDS).done:
                continue
            if self._tasks.exception() is not None:
                self._join()
            return self._tasks.result()
        return None

    def stop_dead(self) -> None:
        """Forget a Spark that has ended by itself, so that another one can be started."""
        if self._tasks.done() and not self._tasks.exception() and not self._tasks.result().is_alive:
            self.close()

    def close(self) -> None:
        """Stop Spark, also amid its start."""
        self._ended.set()
        self._join()
        self._tasks = Future()

    def _join(self) -> None:
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    def _hold(self, ended: threading.Event, tasks: "Future[SparkTasks]") -> None:
        with ExitStack() as held:
            try:
                with self._starting():
                    context = held.enter_context(self._opening(ended))
            except BaseException as error:
                tasks.set_exception(error)  # raised by `wait_until_up`
                return
            tasks.set_result(SparkTasks(context, self._log, self._on_failed_attempts))
            ended.wait()
