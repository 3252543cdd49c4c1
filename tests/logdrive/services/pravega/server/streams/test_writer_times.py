"""Times that writers note: which are accepted, and which are refused."""

import pytest

from logdrive.services.pravega.server.streams import writer_times as writers
from logdrive.store.streams.errors import (
    BadNameError,
    NoSuchScopeError,
    NoSuchStreamError,
    NoSuchWriterError,
    PositionError,
    TimeError,
    TooMuchNotedError,
)
from logdrive.store.streams.state import WriterMark
from logdrive.wire.pravega.names import segment_id
from tests.logdrive.services.pravega.server.streams.marks import Timed
from tests.logdrive.store.streams.harness import SCOPE, STREAM, Rig, rig
from tests.support.virtual_time import run


async def noted(there: Rig, writer: str) -> WriterMark:
    async with there.catalog.turn():
        return (await there.catalog.stream_state(SCOPE, STREAM)).writers[writer]


def test_time_and_position_of_a_writer_never_go_back() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            for _ in range(2):
                await timed.note("a", 100, {0: 10, 1: 20})
            with pytest.raises(TimeError):
                await timed.note("a", 99, {0: 10, 1: 20})
            with pytest.raises(PositionError):
                await timed.note("a", 101, {0: 9, 1: 20})
            assert await noted(there, "a") == WriterMark(100, {0: 10, 1: 20})
            await timed.note("b", -(1 << 63), {0: 9})
            await timed.note("a", (1 << 63) - 1, {0: 10})
            await timed.remove("a")
            assert await noted(there, "a") == WriterMark((1 << 63) - 1, {0: 10}, leaving=True)
            await timed.note("a", (1 << 63) - 1, {})
            assert await noted(there, "a") == WriterMark((1 << 63) - 1, {})

    run(main())


def test_a_position_must_be_one_that_the_stream_has_or_had() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            for wrong in ({2: 0}, {segment_id(0, 1): 0}, {-1: 0}, {0: 1001}, {0: 1 << 40}):
                with pytest.raises(PositionError):
                    await timed.note("a", 1, wrong)
            await timed.split(0)
            await there.streams.truncate(
                SCOPE, STREAM, {segment_id(2, 1): 0, segment_id(3, 1): 0, 1: 0}
            )
            await timed.note("a", 1, {0: 10, 1: 1000, segment_id(2, 1): -1})
            assert await noted(there, "a") == WriterMark(1, {1: 1000, segment_id(2, 1): 0})

    run(main())


def test_a_missing_writer_is_reported_and_names_are_limited() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            with pytest.raises(NoSuchWriterError):
                await timed.remove("a")
            for scope, stream, error in (
                (SCOPE, "none", NoSuchStreamError),
                ("none", STREAM, NoSuchScopeError),
            ):
                with pytest.raises(error):
                    await timed.writers.note_time(scope, stream, "a", 1, {})
                with pytest.raises(error):
                    await timed.writers.remove_writer(scope, stream, "a")
            for name in ("", "x" * 257):
                with pytest.raises(BadNameError):
                    await timed.note(name, 1, {})
            await timed.note("x" * 256, 1, {})

    run(main())


def test_the_times_kept_of_a_stream_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "MAX_NOTED", 5)

    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            await timed.note("a", 1, {0: 1, 1: 1})
            await timed.note("b", 1, {0: 1})
            for name, position in (("c", {}), ("b", {0: 1, 1: 1})):
                with pytest.raises(TooMuchNotedError):
                    await timed.note(name, 2, position)
            await timed.note("b", 2, {1: 2})
            await timed.note("a", 2, {})
            await timed.note("c", 2, {0: 0})

    run(main())


def test_a_commits_time_has_its_position_and_never_fails_the_commit() -> None:
    async def main() -> None:
        async with rig() as there:
            timed = Timed(there)
            await timed.made()
            found, _ = await there.transactions.begin_transaction(SCOPE, STREAM, 1000)
            await there.transactions.commit_transaction(SCOPE, STREAM, found)
            await timed.writers.note_commit_time(SCOPE, STREAM, "a", 7, found)
            assert await noted(there, "a") == WriterMark(7, {0: 1000, 1: 1000})
            for name, time in (("a", 6), ("", 8), ("x" * 257, 8)):  # refused, and the commit stands
                await timed.writers.note_commit_time(SCOPE, STREAM, name, time, found)
            await timed.writers.note_commit_time(SCOPE, "none", "a", 8, found)
            assert await noted(there, "a") == WriterMark(7, {0: 1000, 1: 1000})
            assert await timed.noting() == ["a"]

    run(main())
