"""Publishes how far the tables have come, as a named reader's position in each segment.

Retention that names the reader does not cut beyond it. The tables themselves don't need the
position: if it can't be published, the run goes on.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from logdrive.errors import LogdriveError, TransientError
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.read.stream import StreamClient
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.reader.position import advance_reader_position
from logdrive.services.reader import ServiceReader
from logdrive.store.errors import NoSuchSegmentError

DEFAULT_READER: Final = "pipeline"
_SECONDS: Final = 10.0  # limit on the delay of a commit


class ConsumerPosition:
    """The position of the reader *name* during one run; with an empty name nothing is published.

    Positions only rise. If the store has a higher position for a segment, then other tables use the
    same name: this run no longer touches that segment's position, since it can't know what the
    other tables still need.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # segment -> last position published
        self._set: dict[str, int] = {}
        # segments to leave alone: further for other tables, or gone
        self._others: set[str] = set()
        # True after a failure, which is logged once
        self._failing = False
        self._log = structlog.get_logger("logdrive.pipeline").bind(reader=name)

    def publish_ends(self, stream: ServiceReader, ends: Mapping[str, int]) -> None:
        """Raise the position in each segment to its offset in *ends*.

        Failures are logged, not raised; the next call tries again.
        """
        behind = {
            name: end
            for name, end in ends.items()
            if name not in self._others and self._set.get(name, -1) < end
        }
        if not self._name or not behind:
            return
        if not isinstance(stream, StreamClient):
            return  # retention by positions is the store's, which is read through its Pravega face
        try:
            asyncio.run(self._publish(stream, behind))
        except LogdriveError as error:
            if not self._failing:
                self._log.warning(
                    "the reader's position can't be published, so retention waits; trying again "
                    "with each commit",
                    reason=str(error),
                )
            self._failing = True

            # a segment may have moved, and a token expired, until the next attempt
            stream.location.homes.clear()
            stream.location.tokens.clear()
            return

        if self._failing:
            self._log.info("the reader's position is published again")
        self._failing = False

    async def _publish(self, stream: StreamClient, ends: Mapping[str, int]) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                stream.location.tokens.pop(True, None)  # it may have expired since the last commit
                homes: dict[Target, dict[str, int]] = {}
                # the segments by their segment store: one connection each
                for segment, end in ends.items():
                    home = await stream.locate_store(segment, update=True)
                    homes.setdefault(home, {})[segment] = end
                for home, its_ends in homes.items():
                    await self._publish_at(home, its_ends)
        except TimeoutError as error:
            raise TransientError(f"no answer within {_SECONDS:g} s") from error

    async def _publish_at(self, home: Target, ends: Mapping[str, int]) -> None:
        async with connect_segment_store(
            SystemTransport(), home.host, home.port, home.tls, token=home.token_of
        ) as client:
            asked = [
                advance_reader_position(client, segment, self._name, end)
                for segment, end in ends.items()
            ]
            # one segment that fails does not keep the others back
            answers = await asyncio.gather(*asked, return_exceptions=True)

        failures: list[BaseException] = []
        for (segment, end), answer in zip(ends.items(), answers, strict=True):
            if isinstance(answer, NoSuchSegmentError):
                self._others.add(segment)  # gone: retention has nothing to wait for
            elif isinstance(answer, BaseException):
                failures.append(answer)
            else:
                self._on_position(segment, end, answer)
        if failures:
            raise failures[0]

    def _on_position(self, segment: str, end: int, position: int) -> None:
        self._set[segment] = end
        if position > end:  # positions only rise, so it was not lowered to *end*
            self._others.add(segment)
            remedy = (
                "give these tables another reader name (--reader) if others use this one, else: "
                f"logdrive store readers URI {self._name} --forget"
            )
            self._log.warning(
                "the reader's position is ahead of these tables",
                segment=segment,
                position=position,
                end=end,
                remedy=remedy,
            )
