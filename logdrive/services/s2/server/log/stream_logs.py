"""All open streams of S2's face, by segment."""

from collections.abc import Callable
from random import Random

from logdrive.host.clock import Clock
from logdrive.services.numbering.opened import OpenByName
from logdrive.services.numbering.segments import NumberedSegments
from logdrive.services.s2.server.log.encoding import LogSettings
from logdrive.services.s2.server.log.stream_log import StreamLog


class StreamLogs:
    """Opens streams on demand; closes idle ones, and all at the end."""

    def __init__(self, numbering: NumberedSegments, *, clock: Clock, random: Random) -> None:
        self._numbering = numbering
        self._clock = clock
        self._random = random
        self._open: OpenByName[StreamLog] = OpenByName(clock)

    async def open(self, segment: str, settings: Callable[[], LogSettings]) -> StreamLog:
        """Return the stream that is *segment*, opened if it is not.

        Ask for it again for each request: it may be closed when it is idle. Raises
        `NoSuchSegmentError`, `StorageError`, `NotEventsError`.
        """

        async def make() -> StreamLog:
            return StreamLog(
                self._numbering.store,
                await self._numbering.open(segment),
                clock=self._clock,
                random=self._random,
                settings=settings,
            )

        return await self._open.open(segment, make)

    def get(self, segment: str) -> StreamLog | None:
        """Return the stream if it is open."""
        return self._open.get(segment)

    async def run(self) -> None:
        """Close streams that nobody uses, until cancelled."""
        await self._open.run()

    async def close_idle(self) -> None:
        """Close the streams that nobody has used for a minute."""
        await self._open.close_idle()

    async def forget(self, segment: str) -> None:
        """Close a stream that is deleted, or is about to be, and delete its index."""
        async with self._open.closed(segment):
            await self._numbering.forget(segment)

    async def close(self) -> None:
        """Close all streams; call it before the numbered segments are closed."""
        await self._open.close()
