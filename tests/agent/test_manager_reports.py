"""What the agent tells a service manager: readiness, status, the watchdog, and more time."""

import asyncio

import pytest

from logdrive.host.service_manager import ServiceManager
from tests.agent.world import World, lines
from tests.support.virtual_time import run


class _Manager(ServiceManager):
    """Keeps what it is told."""

    def __init__(self, watchdog_seconds: float = 0.0) -> None:
        super().__init__("there", watchdog_seconds)
        self.told: list[str] = []

    def _send(self, *lines: str) -> None:
        self.told += lines


def test_it_is_ready_when_its_files_are_found_and_shows_how_it_goes() -> None:
    async def main() -> None:
        world, manager = World(), _Manager(watchdog_seconds=3.0)
        await world.reader()
        world.write(lines(0, 10))
        world.start(service_manager=manager)
        await world.clock.sleep(10)
        assert manager.told.index("READY=1") > 0
        began = manager.told[: manager.told.index("READY=1")]
        assert any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in began)
        assert began[-1].startswith("STATUS=not connected; 1 files, 1 behind by ")
        assert "STATUS=connected to reader:5044; 1 files, none behind; 0.0 MiB/s" in manager.told
        assert not any("EXTEND" in line for line in manager.told[len(began) + 2 :])

        manager.told.clear()
        await world.clock.sleep(30)
        assert 29 <= manager.told.count("WATCHDOG=1") <= 31  # three times within its 3 s
        await world.stop()

    run(main())


def test_pings_come_from_the_event_loop_so_that_its_hang_is_noticed() -> None:
    async def main() -> None:
        world, manager = World(), _Manager(watchdog_seconds=3.0)
        world.start(service_manager=manager)
        await world.clock.sleep(5)
        (reports,) = [task for task in asyncio.all_tasks() if task.get_name() == "agent-reports"]
        assert reports.get_loop() is asyncio.get_running_loop()
        await world.stop()
        manager.told.clear()
        await world.clock.sleep(10)
        assert manager.told == []  # nor does anything ping once the agent has ended

    run(main())


def test_a_long_drain_asks_for_more_time_until_it_is_over() -> None:
    async def main() -> None:
        world, manager = World(), _Manager()
        world.settings["agent"]["drain_seconds"] = 100
        world.write(lines(0, 10))
        world.start(service_manager=manager)
        await world.clock.sleep(10)
        manager.told.clear()
        await world.stop()
        assert manager.told.count("STOPPING=1") == 1
        asked = manager.told.count("EXTEND_TIMEOUT_USEC=20000000")
        assert asked >= 20  # every 5 s
        assert any(line.startswith("STATUS=draining; not connected (") for line in manager.told)

    run(main())


def test_without_a_manager_nothing_is_told() -> None:
    manager = ServiceManager.from_environment({})
    assert not manager.is_there
    for tell in (manager.ready, manager.reloading, manager.stopping, manager.ping):
        tell()


@pytest.mark.parametrize("watchdog", [0.0, 6.0])
def test_a_start_without_watchdog_is_not_pinged(watchdog: float) -> None:
    async def main() -> None:
        world, manager = World(), _Manager(watchdog_seconds=watchdog)
        world.start(service_manager=manager)
        await world.clock.sleep(20)
        await world.stop()
        assert ("WATCHDOG=1" in manager.told) == bool(watchdog)

    run(main())
