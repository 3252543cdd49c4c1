"""The load keeps what it says of itself, so that what places are compared by is the same for
all.
"""

import asyncio
from pathlib import Path

from bench.measure import Setting
from bench.store.load import Load, append_all
from logdrive.model.numbers import ABSENT


def test_each_writer_numbers_its_appends_in_order_and_has_no_more_in_flight_than_told() -> None:
    load, setting = Load(writers=3, size=1000, in_flight=2), Setting(24, Path("unused"))
    numbers: dict[int, list[tuple[int, int]]] = {}
    flying: dict[int, int] = {}

    def submit(writer: int, data: bytes, previous: int, number: int) -> "asyncio.Future[object]":
        assert len(data) == 1000
        numbers.setdefault(writer, []).append((previous, number))
        flying[writer] = flying.get(writer, 0) + 1
        assert flying[writer] <= 2
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def stored() -> None:
            flying[writer] -= 1
            future.set_result(None)

        asyncio.get_running_loop().call_soon(stored)
        return future

    appended = asyncio.run(append_all(load, setting, submit))
    assert numbers == {writer: [(ABSENT, 1), (1, 2), (2, 3), (3, 4)] for writer in range(3)}
    assert (appended.bytes, len(appended.waits)) == (12_000, 12)
