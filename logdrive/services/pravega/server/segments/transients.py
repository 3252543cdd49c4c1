"""Segments made for one large event each, to be merged into its segment (specification, section
2.11).
"""

import asyncio
from collections import OrderedDict
from random import Random
from typing import Final
from uuid import UUID

from logdrive.errors import LogdriveError
from logdrive.store.engine import Store
from logdrive.store.errors import NoSuchSegmentError

MARK: Final = "#transient."
_LINGER_SECONDS: Final = 60.0


class Transients:
    """Transient segments that were not merged go a minute after their connection, so that a client
    may still go on over another.

    What a process that died left goes with the first connection of the next.
    """

    def __init__(self, store: Store, random: Random) -> None:
        self._store, self._random = store, random
        self._left: OrderedDict[str, float] = OrderedDict()
        self._swept = False

    async def create_transient(self, writer: UUID, parent: str) -> str:
        """Create a segment for an event of *writer* in *parent*, and return its name."""
        segment = f"{parent}{MARK}{writer.hex}.{self._random.getrandbits(128):032x}"
        await self._store.create(segment)
        return segment

    def on_connection_closed(self, segments: list[str]) -> None:
        """Take note that the connection that made *segments* is gone."""
        now = asyncio.get_running_loop().time()
        self._left.update(dict.fromkeys(segments, now))

    def delete_expired(self) -> None:
        """Delete what was left long enough ago."""
        now = asyncio.get_running_loop().time()
        if not self._swept:
            self._swept = True
            self._left.update(
                {
                    segment: now - _LINGER_SECONDS
                    for segment in self._store.segments()
                    if MARK in segment
                }
            )
        while self._left and (oldest := next(iter(self._left.items())))[1] <= now - _LINGER_SECONDS:
            del self._left[oldest[0]]
            self._delete(oldest[0])

    def _delete(self, segment: str) -> None:
        """Delete one; what the store can't do now is done another time."""
        try:
            deleted = self._store.delete(segment)
        except NoSuchSegmentError:  # merged
            return
        except LogdriveError:
            self.on_connection_closed([segment])
            return
        deleted.add_done_callback(
            lambda done: (
                self.on_connection_closed([segment]) if done.exception() is not None else None
            )
        )
