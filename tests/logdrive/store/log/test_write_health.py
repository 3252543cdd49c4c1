"""A full disk is logged once when it begins and once when it is over."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from structlog.testing import capture_logs

from logdrive.errors import TransientError
from logdrive.store.log.write_health import WriteHealth
from tests.logdrive.store.harness import PATH, SEGMENT, running, submit
from tests.support import virtual_time
from tests.support.memory.disk import MemoryDisk


def _events(scenario: Callable[[], Coroutine[Any, Any, None]]) -> list[str]:
    with capture_logs() as said:
        virtual_time.run(scenario())
    return [entry["event"] for entry in said if entry["log_level"] == "warning"]


def test_failures_in_a_row_are_one_complaint_and_their_end_is_told_once() -> None:
    async def scenario() -> None:
        complaint = WriteHealth("/store")
        complaint.on_write_succeeded()
        for _ in range(3):
            complaint.on_write_failed("No space left on device")
            await asyncio.sleep(5)
        complaint.on_write_succeeded()
        complaint.on_write_succeeded()

    assert _events(scenario) == ["writes to the store fail", "writes to the store succeed again"]


def test_a_disk_that_fails_and_recovers_by_the_second_is_not_told_of_each_time() -> None:
    async def scenario() -> None:
        complaint = WriteHealth("/store")
        for _ in range(200):
            complaint.on_write_failed("No space left on device")
            await asyncio.sleep(0.05)
            complaint.on_write_succeeded()
            await asyncio.sleep(0.05)

    assert len(_events(scenario)) <= 6


def test_a_store_on_a_full_disk_complains_once() -> None:
    async def scenario() -> None:
        disk = MemoryDisk()
        async with running(disk) as store:
            await store.create(SEGMENT)
            disk.capacity = 0
            for number in range(1, 4):
                with pytest.raises(TransientError):
                    await submit(store, b"x" * 100, number)
            disk.capacity = None
            await submit(store, b"x" * 100, 1)

    with capture_logs() as said:
        virtual_time.run(scenario())
    first, second = [entry for entry in said if entry["log_level"] == "warning"]
    assert first["store"] == PATH
    assert "No space left on device" in first["reason"]
    assert second["failed"] == 3
