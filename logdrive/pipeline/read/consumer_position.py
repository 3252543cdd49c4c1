"""Tells the store how far the tables are, as a named reader's position in each segment: retention
that names the reader waits for it.

It is a service to retention, and none that the tables need: where the store can't be told, the run
goes on.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import structlog

from logdrive.errors import LogdriveError, TransientError
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.read.stream import StreamClient
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import connected
from logdrive.services.pravega.reader.position import advance_position
from logdrive.store.errors import NoSuchSegmentError

DEFAULT_READER: Final = "pipeline"
_SECONDS: Final = 10.0  # a commit is held up no longer than that


class ConsumerPosition:
    """The reader called *name*, for one run of a pipeline; without a name nothing is told.

    Positions only rise. A segment of which the store knows a higher one is left alone until the run
    ends: other tables are kept under the same name, and what they still need must not be given away
    by these.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._set: dict[str, int] = {}
        self._others: set[str] = set()
        self._failing = False
        self._log = structlog.get_logger("logdrive.pipeline").bind(reader=name)

    def publish_ends(self, face: StreamClient, ends: Mapping[str, int]) -> None:
        """Set the position in each segment to its end in *ends*, where it is not there yet.

        What fails is told, and tried with the next.
        """
        behind = {
            name: end
            for name, end in ends.items()
            if name not in self._others and self._set.get(name, -1) < end
        }
        if not self._name or not behind:
            return
        try:
            asyncio.run(self._publish(face, behind))
        except LogdriveError as error:
            if not self._failing:
                self._log.warning(
                    "the store can't be told how far the tables are; tried again with each commit",
                    reason=str(error),
                )
            self._failing = True
            face.location.homes.clear()  # a segment may be somewhere else by then
            face.location.tokens.clear()
            return
        if self._failing:
            self._log.info("the store is told again how far the tables are")
        self._failing = False

    async def _publish(self, face: StreamClient, ends: Mapping[str, int]) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                face.location.tokens.pop(
                    True, None
                )  # commits may be further apart than a token lasts
                homes: dict[Target, dict[str, int]] = {}
                for segment, end in ends.items():
                    homes.setdefault(await face.locate_store(segment, update=True), {})[segment] = (
                        end
                    )
                for home, there in homes.items():
                    await self._publish_at(home, there)
        except TimeoutError as error:
            raise TransientError(f"no answer within {_SECONDS:g} s") from error

    async def _publish_at(self, home: Target, ends: Mapping[str, int]) -> None:
        async with connected(
            SystemTransport(), home.host, home.port, home.tls, token=home.token_of
        ) as client:
            asked = [
                advance_position(client, segment, self._name, end) for segment, end in ends.items()
            ]
            answers = await asyncio.gather(*asked, return_exceptions=True)
        failures: list[BaseException] = []
        for (segment, end), answer in zip(ends.items(), answers, strict=True):
            if isinstance(answer, NoSuchSegmentError):
                self._others.add(segment)  # nothing of it can be cut
            elif isinstance(answer, BaseException):
                failures.append(answer)
            else:
                self._on_position(segment, end, answer)
        if failures:
            raise failures[0]

    def _on_position(self, segment: str, end: int, position: int) -> None:
        self._set[segment] = end
        if position > end:
            self._others.add(segment)
            remedy = (
                "give these another name (--reader) if others use it, else: logdrive store "
                f"readers URI {self._name} --forget"
            )
            self._log.warning(
                "the reader is further than these tables",
                segment=segment,
                position=position,
                end=end,
                remedy=remedy,
            )
