"""Times that writers note: how far each has come, in a unit of its own, and up to which position.

`logdrive.services.pravega.server.streams.watermarks` computes from them how far the stream's time
has come.
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
"""Limit on the writers of a stream and the segments in their positions together."""
_NAME_LENGTH: Final = 256
_log = structlog.get_logger("logdrive.store.streams")


class WriterTimes:
    """The times noted by all writers of a store. Methods raise the errors of `Streams`, too."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    async def note_time(
        self, scope: str, stream: str, writer: str, time: int, position: Mapping[int, int]
    ) -> None:
        """Record that *writer* had reached *time* when it had written up to *position*.

        *position* has offsets by segment id. Raises `TimeError` or `PositionError` for what lies
        before what the writer noted last, `PositionError` for what the stream does not have, and
        `TooMuchNotedError`.
        """
        async with self._catalog.turn():
            stream_state = await self._catalog.stream_state(scope, stream)
            await self._note(
                scope,
                stream,
                stream_state,
                writer,
                WriterMark(
                    time, self._checked_position(scope, stream, stream_state.stream, position)
                ),
            )

    async def note_commit_time(
        self, scope: str, stream: str, writer: str, time: int, transaction: UUID
    ) -> None:
        """Record the time of *transaction*, which is committed.

        A refusal is only logged: the commit can't be undone.
        """
        try:
            async with self._catalog.turn():
                stream_state = await self._catalog.stream_state(scope, stream)
                if (record := stream_state.transactions.get(transaction.hex)) is None:
                    return  # it ended long ago, and is forgotten
                ends = {
                    number: self._catalog.store.info(segment_name(scope, stream, number))
                    for number in record.targets
                }
                position = {
                    number: info.length for number, info in ends.items() if info is not None
                }
                await self._note(scope, stream, stream_state, writer, WriterMark(time, position))
        except StreamsError as error:
            _log.warning(
                "a transaction's time can't be noted",
                stream=f"{scope}/{stream}",
                time=time,
                reason=str(error),
            )

    async def remove_writer(self, scope: str, stream: str, writer: str) -> None:
        """Stop waiting for *writer*; what it noted still counts for the next watermark.

        Raises `NoSuchWriterError`.
        """
        async with self._catalog.turn():
            noted = (await self._catalog.stream_state(scope, stream)).writers.get(writer)
            if noted is None:
                raise NoSuchWriterError(
                    f"no writer {writer[:300]!r} of {scope}/{stream} has noted a time"
                )
            await self._catalog.commit_puts(
                [WriterPut(scope, stream, writer, replace(noted, leaving=True))]
            )

    async def _note(
        self, scope: str, stream: str, stream_state: StreamState, writer: str, noted: WriterMark
    ) -> None:
        """Check *noted* against what the writer noted before and the limits, and store it."""
        if not 1 <= len(writer) <= _NAME_LENGTH:
            raise BadNameError(f"a writer's name has 1 to {_NAME_LENGTH} characters")

        # neither time nor position goes back
        before = stream_state.writers.get(writer)
        if before is not None and noted.time < before.time:
            raise TimeError(f"the writer has noted {before.time} before")
        if before is not None and any(
            offset < before.position.get(number, 0) for number, offset in noted.position.items()
        ):
            raise PositionError("the writer has noted a later position before")

        # one that needs no more room than before is never refused
        if before is None or len(noted.position) > len(before.position):
            others = sum(
                1 + len(other.position)
                for name, other in stream_state.writers.items()
                if name != writer
            )
            if others + 1 + len(noted.position) > MAX_NOTED:
                raise TooMuchNotedError(
                    f"{len(stream_state.writers)} writers of the stream note times in {others} "
                    "places: no more are kept"
                )
        await self._catalog.commit_puts([WriterPut(scope, stream, writer, noted)])

    def _checked_position(
        self, scope: str, stream: str, state: Stream, position: Mapping[int, int]
    ) -> dict[int, int]:
        """Return *position* without segments that were truncated off the stream.

        Negative offsets, of segments that the writer has not written to, become 0. Raises
        `PositionError` for what the stream never had.
        """
        segments = {segment.id for segment in state.segments}
        known: dict[int, int] = {}
        for number, offset in position.items():
            if number in segments:
                info = self._catalog.store.info(segment_name(scope, stream, number))
                if info is not None and offset > info.length:
                    raise PositionError(f"segment {number} has no offset {offset}")
                known[number] = max(offset, 0)
            # truncated segments are left out; a number that the stream never had is an error
            elif (
                number < 0
                or epoch_of_id(number) >= len(state.epochs)
                or number_of_id(number) >= state.next_number
            ):
                raise PositionError(f"the stream never had a segment {number}")
        return known
