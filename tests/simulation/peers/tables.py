"""Foreign users of a table segment, who share a counter and raise it by conditional updates.

The request that raises the counter also puts a new key of the user's own, with the count. So the
table shows which requests were done: their counts are 1, 2, 3 …, none missing and none twice.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random

from logdrive.services.pravega.client.channel import RequestChannel
from logdrive.services.pravega.client.errors import expect_answer
from logdrive.wire.pravega.control import (
    SegmentAlreadyExists,
    TableKeyBadVersion,
    TableKeyDoesNotExist,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import SegmentCreated
from logdrive.wire.pravega.tables import (
    NOT_THERE,
    CreateTableSegment,
    ReadTable,
    ReadTableEntries,
    RemoveTableKeys,
    TableEntriesRead,
    TableEntriesUpdated,
    TableEntry,
    TableKey,
    TableKeysRemoved,
    TableRead,
    UpdateTableEntries,
)
from tests.simulation.hosts.programs import FACE_PORT
from tests.simulation.peers.client import Client
from tests.simulation.promises import BrokenPromise
from tests.support.memory.transport import MemoryNetwork

TABLE = "logs/state_kvtable/0.#epoch.0"
COUNTER = b"counter"
_PATIENCE_SECONDS = 8.0  # limit on the time for one request
_REMOVES = 0.3  # probability that a user removes one of its keys after an update
_PAGE = 50  # limit on the entries of one answer
_PROMISE = "a table is what was acknowledged"


@dataclass(slots=True)
class Update:
    """One request that raises the counter and puts a key."""

    key: bytes
    count: int  # the new value of the counter, and of the key
    version: int | None = None  # of the key; None: not acknowledged
    refused: bool = False
    removed: bool | None = False  # None: the removal was not answered


Ask = Callable[[Callable[[int], Message]], Awaitable[Message]]
"""Sends the request that a function makes of a request id, and returns the answer."""


class TableUser(Client):
    """A user that raises the counter, once for each action."""

    def __init__(self, name: str, store: str, network: MemoryNetwork, random: Random) -> None:
        super().__init__(name, store, network, random)
        self.updates: list[Update] = []
        # the counter as it was read last; None after an update that may have failed
        self._seen: TableEntry | None = None
        # the greatest version of the counter seen so far
        self._newest = NOT_THERE

    async def _serve(self) -> None:
        async with asked(self._network, self.name, self._store) as ask:
            made = await ask(lambda number: CreateTableSegment(number, TABLE))
            if not isinstance(made, SegmentAlreadyExists):
                expect_answer(SegmentCreated, made)
            while self._left:
                await self._one(ask)

    async def _one(self, ask: Ask) -> None:
        """Raise the counter from the value seen last; it fails if another user was faster."""
        if self._seen is None:
            read = expect_answer(
                TableRead,
                await ask(lambda number: ReadTable(number, TABLE, "", (TableKey(COUNTER),))),
            )
            self._see(read.entries[0].key.version, read.entries[0].value)
        await self._put(ask, self._seen or TableEntry(TableKey(COUNTER, NOT_THERE), b""))
        if self._random.random() < _REMOVES:
            await self._remove(ask)

    def _see(self, version: int, value: bytes) -> None:
        """Note the counter, which must not go back."""
        if version < self._newest:
            what = f"{self.name} reads the counter at {version}, and read it at {self._newest}"
            self.broken = self.broken or BrokenPromise(_PROMISE, what)
        self._seen, self._newest = TableEntry(TableKey(COUNTER, version), value), version

    async def _put(self, ask: Ask, counter: TableEntry) -> None:
        count = int(counter.value or b"0") + 1
        update = Update(b"%s/%06d" % (self.name.encode(), len(self.updates)), count)
        self.updates.append(update)
        self._left -= 1
        self._seen = None  # unless the update is acknowledged, the counter must be read again

        value = b"%d" % count
        entries = (
            TableEntry(TableKey(COUNTER, counter.key.version), value),
            TableEntry(TableKey(update.key, NOT_THERE), value),
        )
        answer = await ask(lambda number: UpdateTableEntries(number, TABLE, "", entries))
        if isinstance(answer, TableKeyBadVersion | TableKeyDoesNotExist):
            update.refused = True
            return
        version, update.version = expect_answer(TableEntriesUpdated, answer).versions
        self._see(version, value)

    async def _remove(self, ask: Ask) -> None:
        """Remove a key of this user's, on condition that its version is the one put."""
        done = [
            update
            for update in self.updates
            if update.version is not None and update.removed is False
        ]
        if not done:
            return
        update = self._random.choice(done)
        update.removed = None
        key = TableKey(update.key, update.version or 0)
        expect_answer(
            TableKeysRemoved, await ask(lambda number: RemoveTableKeys(number, TABLE, "", (key,)))
        )
        update.removed = True


@asynccontextmanager
async def asked(network: MemoryNetwork, who: str, store: str) -> AsyncIterator[Ask]:
    """Yield a function that sends requests to *store* as *who*; see `Ask`.

    It raises `TransientError`, TimeoutError.
    """
    stream = await network.host(who).connect(store, FACE_PORT, None)
    link = RequestChannel(stream, lambda message: None)
    carrying = asyncio.create_task(link.run(), name=f"{who} link")

    async def ask(make: Callable[[int], Message]) -> Message:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            return await link.send_request(make)

    try:
        yield ask
    finally:
        carrying.cancel()
        await asyncio.wait([carrying])
        await stream.close()


async def entries_of(network: MemoryNetwork, store: str) -> dict[bytes, TableEntry]:
    """Return the whole table, read page by page. Raises `TransientError`, TimeoutError."""
    entries: dict[bytes, TableEntry] = {}
    after = b""
    async with asked(network, "reader", store) as ask:
        while True:
            page = expect_answer(TableEntriesRead, await ask(partial(_next_page, after)))
            if not page.entries:
                return entries
            entries |= {entry.key.key: entry for entry in page.entries}
            after = page.continuation_token


def _next_page(after: bytes, number: int) -> Message:
    return ReadTableEntries(number, TABLE, "", _PAGE, after)


def judge_table(users: Iterable[TableUser], entries: dict[bytes, TableEntry]) -> None:
    """Raise `BrokenPromise` unless *entries* agree with the answers that *users* got.

    A request without an answer must have been done whole or not at all.
    """
    updates = [update for user in users for update in user.updates]
    for update in updates:
        _judge_one(update, entries.get(update.key))
    if invented := entries.keys() - {update.key for update in updates} - {COUNTER}:
        raise BrokenPromise(_PROMISE, f"nobody put {min(invented)!r}")

    # a removed key no longer shows its count, so its request is known only by its answer
    removed = {
        update.key
        for update in updates
        if update.version is not None and update.removed is not False
    }
    counts = sorted(
        update.count for update in updates if update.key in entries or update.key in removed
    )
    counter = int(entries[COUNTER].value) if COUNTER in entries else 0
    if counts != list(range(1, counter + 1)):
        raise BrokenPromise(_PROMISE, f"the counter is at {counter}, with the counts {counts}")


def _judge_one(update: Update, entry: TableEntry | None) -> None:
    if update.version is not None and update.removed is False and entry is None:
        raise BrokenPromise(_PROMISE, f"{update.key!r} was acknowledged and is not there")
    if entry is None:
        return
    if update.refused or update.removed is True:
        raise BrokenPromise(
            _PROMISE,
            f"{update.key!r} was {'refused' if update.refused else 'removed'} and is there",
        )
    if entry.value != b"%d" % update.count or (
        update.version is not None and entry.key.version != update.version
    ):
        raise BrokenPromise(
            _PROMISE, f"{update.key!r} is {entry.value!r} at {entry.key.version}, put was {update}"
        )
