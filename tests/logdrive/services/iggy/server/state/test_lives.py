"""Random lives of streams and topics, changed through Iggy and through other faces, with crashes.

What was answered is there after each crash. What was under way is done again, as a client does; the
whole is then as on a store on which nothing ever failed. Numbers stay what they were shown as.
"""

import contextlib
from dataclasses import dataclass
from random import Random
from typing import cast

import pytest

from logdrive.host import faults
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.store.streams.errors import StreamsError
from logdrive.store.streams.key_ranges import current_segments
from logdrive.store.streams.state import StreamConfig
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.replies import IggyStreamInfo, TopicDetails, TopicInfo
from logdrive.wire.iggy.requests import (
    CreateGroup,
    CreatePartitions,
    CreateTopic,
    DeletePartitions,
    DeleteStream,
    DeleteTopic,
    GetGroups,
    GetStreams,
    GetTopic,
    GetTopics,
    IggyCreateStream,
    IggyRequest,
    UpdateStream,
    UpdateTopic,
)
from tests.logdrive.services.iggy.server.handlers.harness import Face, iggy_handlers
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

STREAMS, TOPICS = ("logs", "two words", "logs-2"), ("app", "_x", "app-2")
View = dict[str, dict[str, tuple[int, int]]]
"""By stream and topic: how many partitions and groups there are."""


@dataclass(frozen=True, slots=True)
class Change:
    kind: str
    stream: str
    topic: str
    choice: float


WEIGHTS = {
    "create_stream": 6,
    "delete_stream": 1,
    "rename_stream": 2,
    "create_topic": 9,
    "delete_topic": 2,
    "rename_topic": 2,
    "resize": 6,
    "group": 3,
    "pravega_scope": 1,
    "pravega_stream": 3,
    "pravega_delete": 1,
    "pravega_scale": 2,
    "segments": 1,
}


def chosen(random: Random) -> Change:
    (kind,) = random.choices(list(WEIGHTS), list(WEIGHTS.values()))
    return Change(kind, random.choice(STREAMS), random.choice(TOPICS), random.random())


async def perform(face: Face, root: IggySession, change: Change) -> None:
    """Do *change*; what can't be done in the present state is left."""
    with contextlib.suppress(StreamsError, IggyError):
        if change.kind == "resize":
            await resize(face, root, change)
        elif change.kind.startswith("pravega") or change.kind == "segments":
            await through_others(face, change)
        else:
            await face.ask(root, asked(change))


def asked(change: Change) -> IggyRequest:
    stream, topic = change.stream, change.topic
    requests: dict[str, IggyRequest] = {
        "create_stream": IggyCreateStream(stream),
        "delete_stream": DeleteStream(stream),
        "rename_stream": UpdateStream(stream, STREAMS[int(change.choice * 3)]),
        "create_topic": CreateTopic(stream, topic, int(change.choice * 4)),
        "delete_topic": DeleteTopic(stream, topic),
        "rename_topic": UpdateTopic(stream, topic, TOPICS[int(change.choice * 3)]),
        "group": CreateGroup(stream, topic, str(int(change.choice * 3))),
    }
    return requests[change.kind]


def renamed(change: Change) -> set[str]:
    """Return the stream's new name."""
    request = asked(change) if change.kind == "rename_stream" else None
    return {request.name} if isinstance(request, UpdateStream) else set()


async def resize(face: Face, root: IggySession, change: Change) -> None:
    """Have a topic as many partitions as *change* says: doing it again changes nothing."""
    found = await face.ask(root, GetTopic(change.stream, change.topic))
    if not isinstance(found, TopicDetails):
        return
    more = int(change.choice * 6) - found.topic.partitions
    if more > 0:
        await face.ask(root, CreatePartitions(change.stream, change.topic, more))
    elif more < 0:
        await face.ask(root, DeletePartitions(change.stream, change.topic, -more))


async def through_others(face: Face, change: Change) -> None:
    scope, stream, streams = "pravega", "app" if change.choice < 0.5 else "lines", face.streams
    match change.kind:
        case "pravega_scope":
            await streams.create_scope(scope)
        case "pravega_stream":
            await streams.create(scope, stream, StreamConfig(min_segments=2))
        case "pravega_delete":
            await streams.seal(scope, stream)
            await streams.delete(scope, stream)
        case "pravega_scale":
            # once only, so that doing it again changes nothing
            now = current_segments(await streams.stream("logs", "app"))
            if len(now) == 1:
                await streams.scale("logs", "app", [now[0].id], [(0.0, 0.5), (0.5, 1.0)])
        case _:
            if face.store.info("sink/lines/0.#epoch.0") is None:
                await face.store.create("sink/lines/0.#epoch.0")


async def view(face: Face, root: IggySession) -> tuple[View, dict[str, int]]:
    """Return what is there, and the numbers of all that is."""
    shown: View = {}
    numbers: dict[str, int] = {}
    streams = cast("tuple[IggyStreamInfo, ...]", await face.ask(root, GetStreams()))
    assert len({one.id for one in streams}) == len({one.name for one in streams}) == len(streams)
    for stream in streams:
        numbers[stream.name] = stream.id
        topics = cast("tuple[TopicInfo, ...]", await face.ask(root, GetTopics(stream.id)))
        assert len({one.id for one in topics}) == len({one.name for one in topics}) == len(topics)
        shown[stream.name] = there = {}
        for topic in topics:
            numbers[f"{stream.name}/{topic.name}"] = topic.id
            groups = cast(
                "tuple[object, ...]", await face.ask(root, GetGroups(stream.id, topic.id))
            )
            found = await face.ask(root, GetTopic(stream.name, topic.name))
            assert isinstance(found, TopicDetails)
            assert len(found.partitions) == found.topic.partitions
            there[topic.name] = (topic.partitions, len(groups))
    return shown, numbers


async def beside(changes: list[Change]) -> View:
    """Return the view of a store on which nothing ever failed."""
    reach, faults.on_reach = faults.on_reach, None
    try:
        async with iggy_handlers() as face:
            root = await face.login()
            for change in changes:
                await perform(face, root, change)
            return (await view(face, root))[0]
    finally:
        faults.on_reach = reach


class IggyLives:
    """One directory, opened again after each death; *done* are the changes that it contains."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.disk = MemoryDisk()
        self.done: list[Change] = []
        self.under_way: Change | None = None
        # those that were shown before the last death
        self.numbers: dict[str, int] = {}
        # changes that a death has ended
        self.cut_short = 0
        self._corpse: MemoryDisk | None = None
        self._dies_in = 0

    async def live(self) -> None:
        self._corpse, self._dies_in = None, self.random.randrange(2, 150)
        async with iggy_handlers(self.disk, clean=False) as face:
            root = await face.login()
            if self.under_way is not None:
                await perform(face, root, self.under_way)
                self.done.append(self.under_way)
                self.under_way = None
            shown, numbers = await view(face, root)
            assert shown == await beside(self.done)
            self._check_numbers(numbers)
            faults.on_reach = self._reach
            try:
                for _ in range(self.random.randrange(5, 30)):
                    await self._step(face, root)
                    if self._corpse is not None:
                        break
            finally:
                faults.on_reach = None
            self._die()
        assert self._corpse is not None
        self.disk = self._corpse

    async def _step(self, face: Face, root: IggySession) -> None:
        self.under_way = change = chosen(self.random)
        self.numbers = (await view(face, root))[1]
        await perform(face, root, change)
        if self._corpse is not None:
            self.cut_short += 1
            return
        self.done.append(change)
        self.under_way = None
        self.numbers = (await view(face, root))[1]

    def _check_numbers(self, numbers: dict[str, int]) -> None:
        """What the last change does not concern has the number that it was shown with."""
        changed = {self.done[-1].stream, *renamed(self.done[-1]), "pravega"} if self.done else set()
        for name, number in self.numbers.items():
            if name.partition("/")[0] not in changed:
                assert numbers[name] == number

    def _reach(self, name: str) -> None:
        self._dies_in -= 1
        if self._dies_in == 0:
            self._die()

    def _die(self) -> None:
        if self._corpse is None:
            self._corpse = (
                self.disk.killed() if self.random.random() < 0.3 else self.disk.crash(self.random)
            )


@pytest.mark.parametrize("group", range(4))
def test_what_was_answered_is_there_after_any_crash_and_the_rest_can_be_done_again(
    group: int,
) -> None:
    cut_short = 0
    for seed in range(5 * group, 5 * group + 5):
        lives = IggyLives(Random(seed))

        async def main(lives: IggyLives = lives) -> None:
            for _ in range(6):
                await lives.live()

        run(main())
        cut_short += lives.cut_short
    # else they were no test of crashes
    assert cut_short > 0
