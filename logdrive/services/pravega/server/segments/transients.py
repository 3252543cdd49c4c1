"""Transient segments: each holds one large event until it is merged into the event's segment.

See docs/protocols/pravega.md#segment-lifecycle.
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
"""Seconds between the end of a connection and the deletion of its transient segments."""


class Transients:
    """Creates transient segments, and deletes those that were never merged.

    A transient segment outlives its connection for a minute, so that the client may go on over
    another one. Those left by a process that died are deleted at the first connection of the next.
    """

    def __init__(self, store: Store, random: Random) -> None:
        self._store = store
        self._random = random
        # when the connection of each ended, in seconds on the loop's clock; the earliest first
        self._abandoned: OrderedDict[str, float] = OrderedDict()
        # the store was searched for those of former processes
        self._searched = False

    async def create_transient(self, writer: UUID, parent: str) -> str:
        """Create a segment for an event of *writer* to *parent*; return its full name."""
        segment = transient_name(parent, writer, UUID(int=self._random.getrandbits(128)))
        await self._store.create(segment)
        return segment

    def on_connection_closed(self, segments: list[str]) -> None:
        """Note that the connection that created *segments* has ended."""
        now = asyncio.get_running_loop().time()
        self._abandoned.update(dict.fromkeys(segments, now))

    def delete_expired(self) -> None:
        """Delete the segments whose connection ended long enough ago."""
        now = asyncio.get_running_loop().time()
        if not self._searched:
            self._searched = True
            self._abandoned.update(
                {
                    segment: now - _LINGER_SECONDS
                    for segment in self._store.segments()
                    if is_transient(segment)
                }
            )
        while self._abandoned:
            segment, ended = next(iter(self._abandoned.items()))
            if ended > now - _LINGER_SECONDS:
                break
            del self._abandoned[segment]
            self._delete(segment)

    def _delete(self, segment: str) -> None:
        """Delete *segment*; try again in a minute where the store can't do it now."""
        try:
            deleted = self._store.delete(segment)
        except NoSuchSegmentError:
            return  # it was merged
        except LogdriveError:
            self.on_connection_closed([segment])
            return
        deleted.add_done_callback(
            lambda done: (
                self.on_connection_closed([segment]) if done.exception() is not None else None
            )
        )
