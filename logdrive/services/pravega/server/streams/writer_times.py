"""Writers that note the time they have come to, in a unit of their own, so that readers learn how
far a stream's time has.

What follows from what they note is in `logdrive.services.pravega.server.streams.watermarks`.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

import structlog
from msgspec.structs import replace

from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import (
    BadNameError,
    NoSuchWriterError,
    PositionError,
    StreamsError,
    TimeError,
    TooMuchNotedError,
)
from logdrive.store.streams.state import Stream, StreamState, WriterMark, WriterPut
from logdrive.wire.pravega.names import epoch_of_id, number_of_id, segment_name

MAX_NOTED: Final = 100_000
"""Writers of a stream, and segments in their positions, together."""
_NAME_LENGTH: Final = 256
_log = structlog.get_logger("logdrive.store.streams")


class WriterTimes:
    """All writers of a store that note times. Methods raise what those of `Streams` do."""

    def __init__(self, catalogue: Catalog) -> None:
        self._catalogue = catalogue

    async def note(
        self, scope: str, stream: str, writer: str, time: int, position: Mapping[int, int]
    ) -> None:
        """Take note that *writer* had come to *time* when it had written up to *position*, segment
        to offset.

        Raises `TimeError`, `PositionError` where that lies before what it noted last, and the
        latter where it is no place of the stream; `TooMuchNotedError`.
        """
        async with self._catalogue.turn():
            place = await self._catalogue.stream_state(scope, stream)
            await self._note(
                scope,
                stream,
                place,
                writer,
                WriterMark(time, self._known(scope, stream, place.stream, position)),
            )

    async def note_committed(
        self, scope: str, stream: str, writer: str, time: int, transaction: UUID
    ) -> None:
        """Take note of the time that *transaction*, which is committed, came with.

        Its commit is not undone where that is refused, so then it is only told.
        """
        try:
            async with self._catalogue.turn():
                place = await self._catalogue.stream_state(scope, stream)
                if (found := place.transactions.get(transaction.hex)) is None:
                    return  # it ended long ago, and so did its time
                ends = {
                    number: self._catalogue.store.info(segment_name(scope, stream, number))
                    for number in found.targets
                }
                position = {
                    number: info.length for number, info in ends.items() if info is not None
                }
                await self._note(scope, stream, place, writer, WriterMark(time, position))
        except StreamsError as error:
            _log.warning(
                "a transaction's time is not noted",
                stream=f"{scope}/{stream}",
                time=time,
                reason=str(error),
            )

    async def remove(self, scope: str, stream: str, writer: str) -> None:
        """Wait for *writer* no more; what it noted still counts, once.

        Raises `NoSuchWriterError`.
        """
        async with self._catalogue.turn():
            noted = (await self._catalogue.stream_state(scope, stream)).writers.get(writer)
            if noted is None:
                raise NoSuchWriterError(
                    f"no writer {writer[:300]!r} of {scope}/{stream} has noted a time"
                )
            await self._catalogue.commit_puts(
                [WriterPut(scope, stream, writer, replace(noted, leaving=True))]
            )

    # ---------------------------------------------------------------------------------------------

    async def _note(
        self, scope: str, stream: str, place: StreamState, writer: str, noted: WriterMark
    ) -> None:
        if not 1 <= len(writer) <= _NAME_LENGTH:
            raise BadNameError(f"a writer's name has 1 to {_NAME_LENGTH} characters")
        before = place.writers.get(writer)
        if before is not None and noted.time < before.time:
            raise TimeError(f"the writer has noted {before.time} before")
        if before is not None and any(
            offset < before.position.get(number, 0) for number, offset in noted.position.items()
        ):
            raise PositionError("the writer has noted a later position before")
        if before is None or len(noted.position) > len(before.position):
            others = sum(
                1 + len(found.position) for name, found in place.writers.items() if name != writer
            )
            if others + 1 + len(noted.position) > MAX_NOTED:
                raise TooMuchNotedError(
                    f"{len(place.writers)} writers of the stream note times in {others} "
                    "places: no more are kept"
                )
        await self._catalogue.commit_puts([WriterPut(scope, stream, writer, noted)])

    def _known(
        self, scope: str, stream: str, there: Stream, position: Mapping[int, int]
    ) -> dict[int, int]:
        """Return *position* without what was cut off the stream; where a writer has not written yet
        it may say less than 0.
        """
        segments = {segment.id for segment in there.segments}
        known: dict[int, int] = {}
        for number, offset in position.items():
            if number in segments:
                info = self._catalogue.store.info(segment_name(scope, stream, number))
                if info is not None and offset > info.length:
                    raise PositionError(f"segment {number} has no offset {offset}")
                known[number] = max(offset, 0)
            elif (
                number < 0
                or epoch_of_id(number) >= len(there.epochs)
                or number_of_id(number) >= there.next_number
            ):
                raise PositionError(f"the stream never had a segment {number}")
        return known
