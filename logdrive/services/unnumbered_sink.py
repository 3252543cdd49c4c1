"""What the sinks onto services that keep no number for a writer have in common (rule S5)."""

import asyncio
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, Final, Self
from uuid import UUID

from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.model.framing import Part
from logdrive.model.units import MIB
from logdrive.net.retry import AsyncRetrying, retry_async, wait_fixed
from logdrive.services.outage import Outage
from logdrive.services.pending_writers import PendingWriters

PENDING_BYTES: Final = 256 * MIB  # limit on batches that wait or are in flight
_RETRY_SECONDS: Final = 1.0  # between two attempts to find the stream


def retry_until_answered(outage: Outage, clock: Clock) -> AsyncRetrying:
    """Return what calls a coroutine function again, as long as it takes, until the service answers.

    Each `TransientError` is reported to *outage*.
    """
    return retry_async(
        TransientError,
        sleep=clock.sleep,
        wait=wait_fixed(_RETRY_SECONDS),
        on_failure=lambda error, _: outage.report_failure(str(error)),
    )


class UnnumberedSink:
    """A sink whose batches an appender sends, in a task of its own named *name*.

    *sending* is that task's work; it ends only when it is cancelled, or by a bug.
    """

    keeps_numbers = False

    def __init__(
        self,
        store_id: UUID,
        sending: Coroutine[Any, Any, None],
        name: str,
        *,
        outage: Outage,
        pending_bytes: int,
    ) -> None:
        self.store_id = store_id
        self._writers = PendingWriters(outage)
        self._pending_bytes = pending_bytes
        self._sending = asyncio.create_task(sending, name=name)

    def _check_append(
        self, segment: str, writer: UUID, batch: Sequence[Part], previous: int, waiting: int
    ) -> None:
        """Raise what `Sink.append_batch` raises for a batch that can't be taken.

        *waiting* bytes are pending already.
        """
        self._writers.check_previous(segment, writer, previous)
        if self._sending.done():
            self._sending.result()  # raises the bug that ended it
        self._writers.check_room(waiting, sum(map(len, batch)), self._pending_bytes, segment)

    async def close(self) -> None:
        """Wait up to 5 s for submitted batches; the futures of the others stay pending."""
        await self._writers.wait_for_all()
        await self._stop()

    async def _stop(self) -> None:
        self._sending.cancel()
        await asyncio.wait([self._sending])
        if not self._sending.cancelled():
            self._sending.result()  # raises the bug that ended it

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the sink, after an exception without waiting."""
        if kind is None:
            await self.close()
        else:
            await self._stop()
