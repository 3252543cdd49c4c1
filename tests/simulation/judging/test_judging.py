"""The judge's own counting and reading: each is shown something wrong, and something right beside
it.
"""

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import orjson
import pytest

from logdrive.model.records import block_record, end_record, lean_record
from tests.simulation.judging.arrivals import Batch, NotAsWrittenError, arrived, covered
from tests.simulation.judging.retaining import CutWronglyError, Retained
from tests.simulation.judging.weighing import weigh
from tests.simulation.trace import SPEAKER
from tests.support.memory.disk import MemoryDisk
from tests.support.packs import TEXT, packed
from tests.support.virtual_time import run

_TEXT = "one\ntwo\n"


def _batch(
    data: list[bytes], *, place: str = "logs/events/0.#epoch.0", offset: int = 0, **header: Any
) -> Batch:
    whole = {
        "kind": "data",
        "source": "s",
        "origin": "o",
        "previous": 0,
        "position": len(_TEXT),
        "records": 1,
        "events": 2,
        "skipped": 0,
    }
    return Batch(
        "store",
        place,
        offset,
        offset + 100,
        {**whole, "attributes": {"host": "h"}, "received": 0, **header},
        data,
    )


def test_what_arrived_is_counted_once_and_what_is_missing_is_lost() -> None:
    data = block_record(0, len(_TEXT), 2, _TEXT)
    end = end_record(9, "removed", end_exact=False)
    mark = orjson.loads(end)["log"]["ended"]
    batches = [
        _batch([data]),
        _batch([data]),
        _batch([end], kind="end", previous=9, position=9, events=0, mark=mark),
    ]
    (source,) = arrived(batches).values()
    assert (source.bytes, source.doubled, source.lost, source.open_gap, source.ended) == (
        8,
        True,
        1,
        True,
        "removed",
    )


@pytest.mark.parametrize("wrong", [{"position": 9}, {"previous": 1}, {"events": 3}, {"records": 2}])
def test_a_header_that_says_what_its_records_are_not_is_found(wrong: dict[str, Any]) -> None:
    with pytest.raises(NotAsWrittenError):
        arrived([_batch([block_record(0, len(_TEXT), 2, _TEXT)], **wrong)])


def test_what_a_run_lacks_between_its_records_was_left_out() -> None:
    records = [lean_record(start, start + 4, "abc") for start in (0, 8)]
    (source,) = arrived([_batch(records, position=15, records=2, skipped=7)]).values()
    assert source.pieces == [(0, b"abc\n"), (8, b"abc\n")]
    assert source.left_out == [(4, 8), (12, 15)]
    assert (source.bytes, source.sent, source.lost) == (8, 15, 0)
    with pytest.raises(NotAsWrittenError):
        arrived([_batch(records, position=15, records=2, skipped=4)])


@pytest.mark.parametrize("wrong", [{"position": 9}, {"events": 3}, {"form": "records"}])
def test_a_header_that_says_what_its_pack_is_not_is_found(wrong: dict[str, Any]) -> None:
    said: dict[str, Any] = {"form": "text", "skipped": 0}
    pack = packed(TEXT, _TEXT.encode())
    (source,) = arrived([_batch([pack], **said)]).values()
    assert (source.pieces, source.events) == ([(0, _TEXT.encode())], 2)
    with pytest.raises(NotAsWrittenError):
        arrived([_batch([pack], **{**said, **wrong})])


def test_bytes_in_several_intervals_count_once() -> None:
    assert covered([(5, 9), (0, 4), (3, 6), (20, 21)]) == 10


def _retained(*cuts: tuple[int, int]) -> Retained:
    """Two segments, each of three batches stored every 10 ms in turn and read at once; *cuts* are
    numbers of the segment and batch.
    """
    retained = Retained()
    for number in range(6):
        place, offset = f"logs/events/{number % 2}.#epoch.0", number // 2 * 100
        retained.read(_batch([], place=place, offset=offset, received=number * 10), number * 10)
    for segment, batch in cuts:
        retained.begins(("store", f"logs/events/{segment}.#epoch.0"), 0, batch * 100, 1000)
    return retained


def test_the_oldest_of_all_segments_must_go_first() -> None:
    _retained((0, 2), (1, 1)).judge_order(500, own=False)
    with pytest.raises(CutWronglyError, match="kept what is older"):
        _retained((1, 2)).judge_order(500, own=False)


def test_nothing_younger_than_the_age_may_go_and_nothing_older_may_stay() -> None:
    retained = _retained((0, 2))
    retained.judge_young(980)
    with pytest.raises(CutWronglyError, match="980 ms old"):
        retained.judge_young(981)
    with pytest.raises(CutWronglyError, match="still there"):
        retained.judge_old(500)
    _retained((0, 3), (1, 3)).judge_old(500)


def test_the_weight_of_a_program_is_what_its_tasks_lead_to() -> None:
    async def hold(make: Callable[[], object]) -> None:
        held = [{"a": make()}]
        await asyncio.sleep(1)
        del held

    async def main() -> None:
        context = copy_context()
        context.run(SPEAKER.set, "one")
        task = asyncio.get_running_loop().create_task(
            hold(lambda: memoryview(bytes(5000))), context=context
        )
        other = asyncio.get_running_loop().create_task(hold(lambda: bytes(7000)))
        await asyncio.sleep(0.5)
        assert weigh("one", ()) == 5000
        await asyncio.gather(task, other)
        assert weigh("one", ()) == 0

    run(main())


def test_a_disk_knows_what_is_open() -> None:
    disk = MemoryDisk(["/logs"])
    disk.write("/logs/a", b"1")
    first, second = disk.open("/logs/a"), disk.open("/logs/a")
    second.close()
    assert disk.open_files("/logs") == [first]
    disk.remove("/logs/a")
    assert disk.open_files("/logs")[0].stat().links == 0
    disk.forget_handles()
    assert not disk.open_files("/logs")
