"""De-duplication: the ids that clients chose for the newest messages of a partition.

An id is known while fewer than `entries` messages came after its own, and for `seconds`. What is
known is derived from the partition: after a start, and after a failed append, it is read again from
the partition's end. So it never has an id whose message is not stored.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from logdrive.model.framing import EVENT_HEAD, Part, event_size
from logdrive.model.units import MIB
from logdrive.services.iggy.server.log.stored import read_runs
from logdrive.services.numbering.segment import NumberedSegment
from logdrive.store.engine import Store
from logdrive.wire.iggy.messages.envelope import chosen_id

_PIECE: Final = MIB
"""Bytes of a partition that are read in one go."""


@dataclass(frozen=True, slots=True)
class Deduplication:
    """For how many messages, and seconds, the id of a message is known."""

    entries: int = 10_000
    seconds: int = 60


class KnownIds:
    """The ids that are known; about 200 bytes each."""

    def __init__(self, settings: Deduplication) -> None:
        self._settings = settings
        # by id: how many messages came up to its own, and when (ms since 1970); oldest first
        self._ids: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return len(self._ids)

    def sift(self, ids: Sequence[int], now_ms: int) -> list[int]:
        """Return the indices of messages that are no duplicates, and know them from now on.

        *ids* are those of a batch, 0 where none was chosen.
        """
        self._drop_old(now_ms)
        keep: list[int] = []
        for index, one in enumerate(ids):
            if one in self._ids:
                continue
            keep.append(index)
            self._add(one, now_ms)
        return keep

    def pass_by(self, count: int) -> None:
        """Note *count* messages without a chosen id."""
        self._count += count

    def add_stored(self, events: Part, time_ms: int) -> None:
        """Note the messages in *events*, whole ones, that were appended at *time_ms*."""
        at = 0
        while at < len(events):
            end = at + event_size(events, at)
            self._add(chosen_id(events[at + EVENT_HEAD : end]), time_ms)
            at = end

    def _add(self, id_: int, time_ms: int) -> None:
        self._count += 1
        if id_:  # 0: the client chose none
            self._ids[id_] = (self._count, time_ms)
            # a single send may have more
            if len(self._ids) > self._settings.entries:
                self._ids.popitem(last=False)

    def _drop_old(self, now_ms: int) -> None:
        first, since = self._count - self._settings.entries, now_ms - 1000 * self._settings.seconds
        while self._ids:
            count, time_ms = self._ids[next(iter(self._ids))]
            if count > first and time_ms >= since:
                return
            self._ids.popitem(last=False)


async def read_known_ids(
    store: Store, numbered: NumberedSegment, settings: Deduplication, now_ms: int
) -> KnownIds:
    """Return what is known at the end of the partition, whose view must be up to date.

    Reads at most `entries` messages, of the last `seconds`. Raises `StorageError`.
    """
    known, view = KnownIds(settings), numbered.view
    since = now_ms - 1000 * settings.seconds
    recent = view.position_before(numbered.appended_from(since))
    newest = view.position_of(view.end.seq_num - settings.entries)
    at = max(recent, newest, numbered.first_position())
    while runs := read_runs(store, numbered.segment, at, view.end, _PIECE):
        for run in runs:
            known.add_stored(run.events, run.time_ms)
        at = runs[-1].end
        await asyncio.sleep(0)
    return known
