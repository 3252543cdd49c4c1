"""Random appends by several writers over several connections, compared with a simple model.

Specification, sections 2.3 to 2.9.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.model.framing import frame_events
from logdrive.model.numbers import ABSENT
from logdrive.wire.pravega.appends import (
    AppendSetup,
    ConditionalBlockEnd,
    ConditionalCheckFailed,
    DataAppended,
    SetupAppend,
)
from logdrive.wire.pravega.control import InvalidEventNumber
from logdrive.wire.pravega.layout import Message
from tests.support.pravega.framings import alone, overflowing, padded, whole_block
from tests.support.pravega.peer import Peer, S, World, in_world

WRITERS = [UUID(int=n) for n in range(3)]
CONNECTIONS = 2


@dataclass(frozen=True)
class Step:
    """One append: *raises* is added to the writer's number; *condition* is how far the expected
    length is off, None for none.
    """

    connection: int
    writer: UUID
    events: list[bytes]
    framing: int
    raises: int
    condition: int | None


@dataclass
class Model:
    """The segment's expected content, and the last number answered for each writer."""

    data: bytes = b""
    numbers: dict[UUID, int] = field(default_factory=dict)
    told: dict[tuple[int, UUID], int] = field(default_factory=dict)
    latest: dict[UUID, int] = field(default_factory=dict)
    """The connection that set a writer up last, whose appends alone are taken (rule S2)."""

    def answer(self, step: Step, number: int) -> Message:
        """Return the reply that *step* must get, and store its data."""
        key = (step.connection, step.writer)
        stale = (
            self.told[key] != self.numbers.get(step.writer, ABSENT)
            or self.latest[step.writer] != step.connection
        )
        if stale or number <= self.told[key]:
            return InvalidEventNumber(step.writer, 7, "", number)
        if step.condition:
            return ConditionalCheckFailed(step.writer, number, 7)
        previous, self.told[key], self.numbers[step.writer] = self.told[key], number, number
        self.data += frame_events(step.events)
        return DataAppended(step.writer, number, previous, 7, len(self.data))


def messages(step: Step, number: int, length: int) -> Sequence[Message]:
    if step.condition is not None:
        return [
            ConditionalBlockEnd(
                step.writer, number, length + step.condition, frame_events(step.events), 7
            )
        ]
    framings = (
        lambda: alone(step.events, number, 7, step.writer),
        lambda: whole_block(step.events, number, 7, step.writer),
        lambda: padded(step.events, 5, number, 7, step.writer),
        lambda: overflowing(step.events, 4, number, 7, step.writer),
    )
    return framings[step.framing]()


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, CONNECTIONS - 1),
        st.sampled_from(WRITERS),
        st.lists(st.binary(max_size=9), min_size=1, max_size=3),
        st.integers(0, 3),
        st.sampled_from([1, 1, 1, 5, 0, -1]),
        st.sampled_from([None, None, 0, 3]),
    ),
    max_size=25,
)


@given(STEPS, st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_every_answer_and_every_stored_byte_is_as_the_model_says(
    steps: list[Step], seed: int
) -> None:
    async def main(made: World) -> None:
        await made.store.create(S)
        model, peers = Model(), dict[int, Peer]()
        for step in steps:
            peer = peers.get(step.connection) or await made.peer()
            peers[step.connection] = peer
            if (step.connection, step.writer) not in model.told:
                stored = model.numbers.get(step.writer, ABSENT)
                assert await peer.ask(SetupAppend(1, step.writer, S)) == AppendSetup(
                    1, S, step.writer, stored
                )
                model.told[step.connection, step.writer] = stored
                model.latest[step.writer] = step.connection
            number = max(0, max(model.told[step.connection, step.writer], 0) + step.raises)
            sent = messages(step, number, len(model.data))
            answer = model.answer(step, number)
            await peer.say(*sent)
            assert await peer.hear() == answer
            # the connection is closed, and all its writers with it
            if isinstance(answer, InvalidEventNumber):
                assert await peer.rest() == []
                del peers[step.connection]
                model.told = {
                    key: told for key, told in model.told.items() if key[0] != step.connection
                }
        assert made.store.read(S, 0, 1 << 20) == model.data
        assert {
            writer: made.store.attribute(S, writer) for writer in model.numbers
        } == model.numbers

    in_world(main, random=Random(seed))()
