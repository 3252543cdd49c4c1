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
from logdrive.wire.pravega.names import is_transient, transient_name

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

    async def create(self, writer: UUID, parent: str) -> str:
        """Create a segment for an event of *writer* in *parent*, and return its name."""
        segment = transient_name(parent, writer, UUID(int=self._random.getrandbits(128)))
        await self._store.create(segment)
        return segment

    def leave(self, segments: list[str]) -> None:
        """Take note that the connection that made *segments* is gone."""
        now = asyncio.get_running_loop().time()
        self._left.update(dict.fromkeys(segments, now))

    def sweep(self) -> None:
        """Delete what was left long enough ago."""
        now = asyncio.get_running_loop().time()
        if not self._swept:
            self._swept = True
            self._left.update(
                {
                    segment: now - _LINGER_SECONDS
                    for segment in self._store.segments()
                    if is_transient(segment)
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
            self.leave([segment])
            return
        deleted.add_done_callback(
            lambda done: self.leave([segment]) if done.exception() is not None else None
        )
