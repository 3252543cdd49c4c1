"""Chooses where a micro-batch runs: a small one in the loop's own thread, a larger one in tasks.

A task of Spark costs tens of milliseconds, and its start ten seconds of both cores: a trickle pays
neither. Where much waits, Spark is started in the background, and small micro-batches go on in this
process until it is up.
"""

import threading

from logdrive.model.units import MIB
from logdrive.pipeline.spark.background import BackgroundSpark
from logdrive.pipeline.tasks import InProcess, Tasks

_FIRST_BYTES = 4 * MIB  # limit on the first micro-batch, so that rows come early
_GROWTH = 4  # factor from one micro-batch to the limit on the next
_STARTS_SPARK = 16  # so many times `driver_bytes` in a row, without catching up, start Spark


class TaskChooser:
    """Chooses the tasks of each micro-batch, and how large it may be.

    *others* is what runs the larger ones. All sizes are raw bytes.
    """

    def __init__(
        self, others: "BackgroundSpark | Tasks", driver_bytes: int, most: int, stop: threading.Event
    ) -> None:
        """Micro-batches of less than *driver_bytes* stay here; none has more than *most*."""
        self._others = others
        self._driver_bytes = driver_bytes
        self._most = most
        self._stop = stop
        self._here = InProcess()
        # limit on the next micro-batch
        self._limit = min(_FIRST_BYTES, most)
        # bytes of the micro-batches since the last that left nothing behind
        self._in_a_row = 0

    @property
    def limit(self) -> int:
        """Limit on the bytes of the next micro-batch."""
        if self._driver_bytes and not self._is_up:
            return min(self._limit, self._driver_bytes)
        return self._limit

    def choose(self, size: int) -> Tasks | None:
        """Return where a micro-batch of *size* runs; None if the run is to stop instead.

        Raises what ended the start of Spark.
        """
        if self._driver_bytes and (size < self._driver_bytes or not self._is_up):
            return self._here
        if isinstance(self._others, BackgroundSpark):
            return self._others.wait_until_up(self._stop)
        return self._others

    def note(self, size: int, *, more: bool) -> None:
        """Note that a micro-batch has *size*, and whether *more* waited behind it."""
        if not more:  # the next one is about as large: a trickle stays small
            self._limit = min(max(_FIRST_BYTES, _GROWTH * size), self._most)
            self._in_a_row = 0
            return
        self._limit = min(_GROWTH * self.limit, self._most)
        self._in_a_row += size
        if (
            isinstance(self._others, BackgroundSpark)
            and self._in_a_row >= _STARTS_SPARK * self._driver_bytes
        ):
            self._others.begin()

    @property
    def _is_up(self) -> bool:
        return not isinstance(self._others, BackgroundSpark) or self._others.is_up
