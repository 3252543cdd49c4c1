"""Files are closed and opened within the limits on open files."""

from typing import cast

import pytest

from tests.agent.world import World, contents, lines
from tests.support.virtual_time import run


@pytest.mark.parametrize("most", [16, 20])
def test_files_beyond_the_limit_are_closed_while_they_rest_and_still_followed__G1(
    most: int,
) -> None:
    async def main() -> None:
        world = World(end_after_seconds=5)
        world.settings["agent"] |= {"max_open_files": most, "close_idle_seconds": 3}
        await world.reader()
        paths = [f"/logs/{number:02d}.log" for number in range(40)]
        for path in paths:
            world.write(lines(0, 2), path)
        agent = world.start()
        await world.settle()
        await world.clock.sleep(20)
        assert (
            sum(followed.generation.file is not None for followed in agent.tailer.followed.values())
            <= most
        )
        for path in paths:
            world.write(lines(2, 2), path)
        world.disk.replace(paths[0], "/logs/renamed.log")
        world.disk.remove(paths[1])
        await world.clock.sleep(20)
        await world.settle()
        for path in paths[2:]:
            assert contents(world.stored(path)) == [lines(0, 4)]
        assert contents(world.stored(paths[0])) == [lines(0, 4)]
        (removed,) = world.stored(paths[1])
        assert removed.ended is not None
        await world.stop()

    run(main())


def test_more_files_than_the_process_may_have_open_are_all_delivered() -> None:
    """Handles are left for the connection and the checkpoint, however many files there are."""

    async def main() -> None:
        world = World()
        await world.reader()
        paths = [f"/logs/{number:02d}.log" for number in range(40)]
        for path in paths:
            world.write(lines(0, 2), path)
        agent = world.start(open_files=24)
        most = 0
        for start in (2, 4):
            for _ in range(600):
                await world.clock.sleep(0.1)
                most = max(
                    most,
                    sum(
                        followed.generation.file is not None
                        for followed in agent.tailer.followed.values()
                    ),
                )
            for path in paths:
                world.write(lines(start, 2), path)
        await world.clock.sleep(60)
        assert most == 12
        for path in paths:
            assert contents(world.stored(path)) == [lines(0, 6)]
        await world.stop()

    run(main())


class _WarningLog:
    """A log that keeps its warnings."""

    def __init__(self) -> None:
        self.warnings: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **_: object) -> None: ...

    def warning(self, event: str, **words: object) -> None:
        self.warnings.append((event, words))


def test_one_warning_counts_the_files_without_a_handle_and_names_the_remedy() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        for number in range(40):
            world.write(lines(0, 2), f"/logs/{number:02d}.log")
        for start in range(2):
            log = _WarningLog()
            world.start(open_files=24, log=log)
            await world.clock.sleep(90)
            await world.settle()
            assert all("can't be" not in event for event, _ in log.warnings), (
                "no warning for each file"
            )
            shortages = [
                words
                for event, words in log.warnings
                if event == "files wait to be opened: no handle is left"
            ]
            if start == 0:
                ((words),) = shortages
                assert words["files"] == 28
                assert words["open_files"] == 12
                assert "LimitNOFILE" in str(words["remedy"])
            else:
                assert sum(cast("int", words["files"]) for words in shortages) <= 4, (
                    "files known before are looked at, and closed again"
                )
            await world.stop()

    run(main())
