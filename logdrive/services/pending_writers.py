"""What a sink knows of its writers where the service keeps no numbers for them (rule S5)."""

import asyncio
from typing import Final
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.services.outage import Outage
from logdrive.services.sink import NumberConflictError

_OPEN_SECONDS: Final = 20.0  # limit on `wait_for_writer`
_CLOSE_SECONDS: Final = 5.0  # limit on `wait_for_all`


class PendingWriters:
    """The writers of which a batch is pending, each with the last one. A writer without one may
    begin anywhere.
    """

    def __init__(self, outage: Outage) -> None:
        self._outage = outage
        # number of the last batch of each writer that is pending, and its future
        self._last: dict[UUID, tuple[int, asyncio.Future[None]]] = {}

    async def wait_for_writer(self, writer: UUID) -> None:
        """Return once none of the writer's batches is pending.

        Raises `TransientError` if that takes more than 20 s.
        """
        last = self._last.get(writer)
        if last is not None:
            await asyncio.wait([last[1]], timeout=_OPEN_SECONDS)
            if writer in self._last:
                raise TransientError(
                    f"not stored within {_OPEN_SECONDS:g} s: "
                    f"{self._outage.reason or 'the service is slow'}"
                )

    def check_previous(self, segment: str, writer: UUID, previous: int) -> None:
        """Raise `NumberConflictError` unless a batch behind *previous* follows the last one."""
        last = self._last.get(writer)
        if last is not None and last[0] != previous:
            raise NumberConflictError(
                f"the writer's number in {segment} is {last[0]}, not {previous}"
            )

    def check_room(self, waiting: int, more: int, limit: int, stream: str) -> None:
        """Raise `TransientError` if *more* bytes on top of those *waiting* exceed *limit*."""
        if waiting and waiting + more > limit:
            raise TransientError(
                f"{waiting} bytes wait for {stream}: {self._outage.reason or 'the service is slow'}"
            )

    def add(self, writer: UUID, number: int, done: "asyncio.Future[None]") -> None:
        """Note a batch with the writer's *number*; it is pending until *done* is done."""
        self._last[writer] = (number, done)
        done.add_done_callback(lambda done: self._on_settled(writer, done))

    def _on_settled(self, writer: UUID, done: "asyncio.Future[None]") -> None:
        last = self._last.get(writer)
        if last is not None and last[1] is done:
            del self._last[writer]

    async def wait_for_all(self) -> None:
        """Wait up to 5 s for all batches; the futures of the others stay pending."""
        if self._last:
            await asyncio.wait([done for _, done in self._last.values()], timeout=_CLOSE_SECONDS)
