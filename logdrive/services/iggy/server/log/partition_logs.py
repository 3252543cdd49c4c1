"""All open partitions of Iggy's face, by segment."""

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.services.iggy.server.log.failures import as_iggy_error
from logdrive.services.iggy.server.log.known_ids import Deduplication
from logdrive.services.iggy.server.log.partition import PartitionFigures, PartitionLog
from logdrive.services.numbering.opened import OpenByName
from logdrive.services.numbering.segments import NumberedSegments


class PartitionLogs:
    """Opens partitions on demand; closes idle ones, and all at the end."""

    def __init__(
        self,
        numbering: NumberedSegments,
        *,
        clock: Clock,
        deduplication: Deduplication | None = None,
    ) -> None:
        self._numbering = numbering
        self._clock = clock
        self._deduplication = deduplication
        self._open: OpenByName[PartitionLog] = OpenByName(clock)

    async def open(self, segment: str) -> PartitionLog:
        """Return the partition that is *segment*, opened if it is not.

        Ask for it again for each request: it may be closed when it is idle. Raises `IggyError`:
        PARTITION_NOT_FOUND, FEATURE_UNAVAILABLE for a segment without events.
        """

        async def make() -> PartitionLog:
            return PartitionLog(
                self._numbering.store,
                await self._numbering.open(segment),
                clock=self._clock,
                deduplication=self._deduplication,
            )

        try:
            return await self._open.open(segment, make)
        except LogdriveError as error:
            raise as_iggy_error(error) from error

    def get(self, segment: str) -> PartitionLog | None:
        """Return the partition if it is open."""
        return self._open.get(segment)

    def estimate(self, segment: str) -> PartitionFigures | None:
        """Return about what the partition has, for lists; None if it does not exist.

        It is not opened for that, so nothing is walked over. Numbers of messages are what the store
        counted: receivers count lines, and merges of transactions count nothing. `figures` of an
        open partition are exact.
        """
        info = self._numbering.store.info(segment)
        if info is None:
            return None
        size = info.length - info.start
        gone = info.events * info.start // info.length if info.length else 0
        return PartitionFigures(
            gone, max(0, info.events - 1), info.events - gone, size, info.modified_ms
        )

    async def run(self) -> None:
        """Close partitions that nobody uses, until cancelled."""
        await self._open.run()

    async def close_idle(self) -> None:
        """Close the partitions that nobody has used for a minute."""
        await self._open.close_idle()

    async def forget(self, segment: str) -> None:
        """Close a partition that is deleted, or is about to be, and delete its index."""
        async with self._open.closed(segment):
            await self._numbering.forget(segment)

    async def close(self) -> None:
        """Close all partitions; call it before the numbered segments are closed."""
        await self._open.close()
