"""Writers at a service that keeps no numbers (rule S5): a connection's first run of a source is
taken as it is, and a run that fails is asked for again, not one behind it.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.model.framing import Part, frame_event
from logdrive.model.numbers import ABSENT, NOT_KEPT, number_of
from logdrive.services.sink import NumberConflictError
from receiver.writers import Writer, WriterTable
from tests.receiver.world import in_virtual_time

SOURCE = UUID(int=7)
BATCH = [frame_event(b"{}")]
AT = [number_of(position, b"x") for position in (0, 100, 200, 300, 400)]


class Unnumbered:
    """A sink without numbers; each append waits for the test, or fails at once."""

    store_id = UUID(int=1)
    keeps_numbers = False

    def __init__(self) -> None:
        self.appended: list[tuple[int, int, asyncio.Future[None]]] = []
        self.full = False

    def segment_for(self, routing_key: str) -> str:
        return "basin/stream"

    async def open_writer(self, segment: str, writer: UUID) -> int:
        pending = [future for _, _, future in self.appended if not future.done()]
        if pending:
            await asyncio.wait(pending)
        await asyncio.sleep(0)  # others hear of what is done first
        return NOT_KEPT

    def append_batch(
        self,
        segment: str,
        writer: UUID,
        batch: Sequence[Part],
        events: int,
        previous: int,
        number: int,
    ) -> "asyncio.Future[None]":
        if self.full:
            raise TransientError("too much waits")
        self.appended.append((previous, number, asyncio.get_running_loop().create_future()))
        return self.appended[-1][2]

    async def close(self) -> None:
        """Nothing to close."""


class Holding:
    fenced = False

    def on_fenced(self) -> None:
        self.fenced = True


def run(writer: Writer, holder: Holding, step: int) -> "asyncio.Future[None]":
    """Append the run from place *step* to the next one, which must follow."""
    assert writer.follows(AT[step])
    return writer.append_run(holder, BATCH, 1, AT[step], AT[step + 1])


@in_virtual_time
async def test_the_first_run_of_a_registration_may_begin_anywhere_and_the_next_must_follow() -> (
    None
):
    sink, holder = Unnumbered(), Holding()
    writer = WriterTable().claim_writer(sink, SOURCE, holder)
    assert not writer.follows(AT[2]), "before its P"
    assert await writer.read_durable_number(holder) == NOT_KEPT
    run(writer, holder, 2)
    assert not writer.follows(AT[2])
    assert not writer.follows(AT[4])
    run(writer, holder, 3)


@in_virtual_time
async def test_another_registration_begins_anywhere_again_and_fences_the_first() -> None:
    sink, table, first, second = Unnumbered(), WriterTable(), Holding(), Holding()
    writer = table.claim_writer(sink, SOURCE, first)
    await writer.read_durable_number(first)
    run(writer, first, 2).set_result(None)
    assert table.claim_writer(sink, SOURCE, second) is writer
    assert first.fenced
    assert await writer.read_durable_number(second) == NOT_KEPT
    with pytest.raises(NumberConflictError):
        writer.append_run(first, BATCH, 1, AT[3], AT[4])
    run(writer, second, 1)


@in_virtual_time
async def test_after_a_failed_run_the_number_is_what_this_registration_has_durable() -> None:
    sink, holder = Unnumbered(), Holding()
    writer = WriterTable().claim_writer(sink, SOURCE, holder)
    await writer.read_durable_number(holder)
    run(writer, holder, 1).set_result(None)
    run(writer, holder, 2).set_exception(TransientError("lost"))
    run(writer, holder, 3).set_result(None)  # durable, but behind a hole
    assert await writer.read_durable_number(holder) == AT[2]
    assert writer.follows(AT[2])
    assert not writer.follows(AT[4])


@in_virtual_time
async def test_if_the_first_run_fails_a_run_behind_it_is_not_taken_for_the_first() -> None:
    sink, holder = Unnumbered(), Holding()
    writer = WriterTable().claim_writer(sink, SOURCE, holder)
    await writer.read_durable_number(holder)
    sink.full = True
    with pytest.raises(TransientError):
        run(writer, holder, 1)
    sink.full = False
    assert not writer.follows(AT[2])
    assert await writer.read_durable_number(holder) == AT[1]
    run(writer, holder, 1)


@in_virtual_time
async def test_a_source_whose_first_run_from_its_beginning_fails_was_never_seen() -> None:
    sink, holder = Unnumbered(), Holding()
    writer = WriterTable().claim_writer(sink, SOURCE, holder)
    await writer.read_durable_number(holder)
    run(writer, holder, 0).set_exception(TransientError("lost"))
    assert await writer.read_durable_number(holder) == ABSENT
    run(writer, holder, 0)
