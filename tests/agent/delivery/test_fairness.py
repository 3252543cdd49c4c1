"""Sources take turns: one busy file starves nobody (rule D9). Counted in runs, not in time."""

from collections import Counter

from logdrive.model.units import MIB
from logdrive.wire.lumberjack.frames import RunFrame
from tests.agent.world import World, contents, lines
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

BUSY = 60_000
"""Lines of a busy file, of 100 bytes each."""


def _busy_lines(name: str, count: int = BUSY) -> bytes:
    return b"".join(b"%s %08d %s\n" % (name.encode(), one, b"x" * 88) for one in range(count))


class _Turns(ReaderModel):
    """A receiver that notes which file each run is of. Its answers take a while."""

    def __init__(self) -> None:
        super().__init__()
        self.ack_seconds = 0.2
        self.order: list[str] = []  # paths, a run each
        self.fail = self._note

    def _note(self, run: RunFrame) -> bool:
        frame = next(one for one in reversed(self.registered) if one.index == run.index)
        path = bytes(frame.attributes).partition(b'"path":"')[2].partition(b'"')[0]
        self.order.append(path.decode())
        return False


def test_lines_of_quiet_files_overtake_what_waits_of_a_busy_one__D9() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["windows_in_flight"] = 2
        world.settings["output"]["window_bytes"] = MIB
        reader = _Turns()
        await world.reader(model=reader)
        quiet = [f"/logs/quiet{number:02d}.log" for number in range(20)]
        for path in quiet:
            world.write(b"first\n", path)
        world.start()
        await world.settle()
        world.write(_busy_lines("busy", 4 * BUSY), "/logs/busy.log")
        while len(reader.order) < len(quiet) + 4:
            await world.clock.sleep(0.01)
        began = len(reader.order)
        for path in quiet:
            world.write(b"second\n", path)
        await world.settle(600)

        order = reader.order[began:]
        last = max(order.index(path) for path in quiet)
        before, after = order[:last].count("/logs/busy.log"), order[last:].count("/logs/busy.log")
        # what is under way or read already, and a turn of the busy file while they are found
        assert before <= 12 < after, (before, after)
        assert [contents(world.stored(path)) for path in quiet] == [[b"first\nsecond\n"]] * 20
        await world.stop()

    run(main())


def test_busy_files_get_as_many_runs_as_one_another__D9() -> None:
    async def main() -> None:
        world = World()
        world.settings["output"]["windows_in_flight"] = 2
        world.settings["output"]["window_bytes"] = MIB
        reader = _Turns()
        paths = [f"/logs/{name}.log" for name in "abc"]
        for path in paths:
            world.write(_busy_lines(path[6], 2 * BUSY), path)
        world.write(lines(0, 1), "/logs/small.log")
        await world.reader(model=reader)
        world.start()
        await world.settle(600)

        # the first to register is the first to send, and to have sent all
        begun = max(reader.order.index(path) for path in paths)
        ended = min(_last_index(reader.order, path) for path in paths)
        counts = Counter[str]()
        for path in reader.order[begun:ended]:
            counts[path] += 1
            shares = [counts[path] for path in paths]
            assert max(shares) - min(shares) <= 2, counts
        assert min(counts[path] for path in paths) > 3
        assert [contents(world.stored(path)) for path in paths] == [
            [_busy_lines(path[6], 2 * BUSY)] for path in paths
        ]
        await world.stop()

    run(main())


def _last_index(order: list[str], path: str) -> int:
    return len(order) - 1 - order[::-1].index(path)
