"""Any sequence of messages ends at most its own connection (specification, section 1.1)."""

import contextlib
from dataclasses import fields, replace
from random import Random
from typing import Any, get_type_hints

from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import TransientError
from logdrive.services.pravega.server.segments.dispatch import Request
from logdrive.wire.pravega.appends import AppendBlockEnd, ConditionalBlockEnd, SetupAppend
from logdrive.wire.pravega.attributes import TABLE
from logdrive.wire.pravega.codec import MESSAGE_TYPES
from logdrive.wire.pravega.control import KeepAlive
from logdrive.wire.pravega.fields import I64, TailI64
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import NO_VALUE, CreateSegment, ReadSegment
from logdrive.wire.pravega.tables import CreateTableSegment, TableEntry, TableKey
from tests.logdrive.wire.pravega.messages import MESSAGES, instances
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world
from tests.support.pravega.tables import T, put

NAMES = st.sampled_from([S, T, "a", f"{S}#transaction.1"])
NUMBERS = st.integers(-2, 60)
LONG_NUMBERS = st.sampled_from([-1, 0, 1, 19, NO_VALUE, 1 << 60, (1 << 63) - 1]) | NUMBERS
SERVED = Request | ReadSegment | SetupAppend | AppendBlockEnd | ConditionalBlockEnd
REQUESTS = st.sampled_from(
    [made for made in MESSAGE_TYPES.values() if issubclass(made, SERVED)]
).flatmap(instances)


def _about_what_there_is(message: Message, data: st.DataObject) -> Message:
    """Give *message* names, writers and numbers that mostly exist."""
    values: dict[str, Any] = {}
    hints = get_type_hints(type(message), include_extras=True)
    for entry in fields(message):  # type: ignore[arg-type]
        now = getattr(message, entry.name)
        if entry.name in ("segment", "target", "source", "parent"):
            values[entry.name] = data.draw(NAMES)
        elif entry.name == "sources":
            values[entry.name] = tuple(data.draw(NAMES) for _ in now)
        elif entry.name in ("writer", "attribute"):
            values[entry.name] = data.draw(st.sampled_from([W, TABLE]))
        elif hints[entry.name] in (I64, TailI64):
            values[entry.name] = data.draw(LONG_NUMBERS)
        elif type(now) is int and entry.name not in ("high", "low"):
            values[entry.name] = data.draw(NUMBERS)
    return replace(message, **values)  # type: ignore[type-var]


@given(
    st.lists(REQUESTS, max_size=12) | st.lists(MESSAGES, max_size=12),
    st.data(),
    st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_no_sequence_of_messages_harms_the_face(
    messages: list[Message], data: st.DataObject, seed: int
) -> None:
    meant = [_about_what_there_is(message, data) for message in messages]

    async def main(made: World) -> None:
        other = await made.peer()
        await other.ask(CreateSegment(1, S))
        await other.ask(CreateTableSegment(2, T))
        await other.ask(put(TableEntry(TableKey(b"a"), b"1")))
        for message in meant:
            peer = await made.peer()
            with contextlib.suppress(TransientError, EOFError):
                await peer.ask(message, KeepAlive())
        peer = await made.peer()
        with contextlib.suppress(TransientError):
            await peer.say(*meant)
        assert await other.ask(KeepAlive()) == KeepAlive()
        assert await (await made.peer()).ask(KeepAlive()) == KeepAlive()
        assert made.network.failures == []

    in_world(main, random=Random(seed))()
