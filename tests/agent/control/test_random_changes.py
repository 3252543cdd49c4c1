"""Random histories of one file that operators skip and have sent again, with kills and lost
receivers between: each source tiles, and the last one has all that was not skipped (A3, A4).
"""

import random

import pytest

from tests.agent.control.asking import ask
from tests.agent.world import LOG, World, lines
from tests.support.reader_model import Stored
from tests.support.virtual_time import run

_STEPS = 14


class _History:
    """Plays one history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(seed)
        self.world.settings["agent"]["drain_seconds"] = 2
        self.written = 0
        self.is_read = True  # whether there is a receiver
        self.lost = False  # whether the checkpoint was, and with it what only it knows
        self.done: dict[str, int] = {"skip": 0, "resend": 0}

    async def play(self) -> None:
        await self.world.ships(self._lines())
        for _ in range(_STEPS):
            step = self.random.choice(
                [self._write, self._write, self._change, self._change, self._restart, self._cut]
            )
            await step()
            await self.world.clock.sleep(self.random.choice([0.0, 0.05, 0.7, 3.0]))
        await self._bring_receiver()
        await self.world.settle(600)
        await self.world.stop()

    def _lines(self) -> bytes:
        count = self.random.choice([1, 3, 50, 3000])
        self.written += count
        return lines(self.written - count, count)

    async def _write(self) -> None:
        self.world.write(self._lines())

    async def _change(self) -> None:
        do = self.random.choice(["skip", "resend"])
        answer = await ask(self.world, do, source=LOG)
        self.done[do] += answer.ok

    async def _restart(self) -> None:
        await (self.world.kill() if self.random.random() < 0.6 else self.world.stop())
        if self.random.random() < 0.3 and "checkpoint.json" in self.world.disk.names("/state"):
            self.world.forget()
            self.lost = True
        self.world.start()
        await self.world.clock.sleep(0.5)

    async def _cut(self) -> None:
        if self.is_read:
            await self.world.crash_reader()
            self.is_read = False
        else:
            await self._bring_receiver()

    async def _bring_receiver(self) -> None:
        if not self.is_read:
            await self.world.reader()
            self.is_read = True


def _check_tiles(stored: Stored, content: bytes) -> int:
    """Return the end of what is stored, having checked that it is the file's, without a hole."""
    pieces = sorted(
        [(start, end, data) for start, end, data in stored.data]
        + [(start, end, reason) for start, end, reason, _ in stored.gaps],
        key=lambda piece: piece[:2],
    )
    at = 0
    for start, end, what in pieces:
        assert start == at < end
        if isinstance(what, bytes):
            assert what == content[start:end]
        else:
            assert what == "skipped"
            assert content[end - 1 : end] == b"\n"
        at = end
    return at


@pytest.mark.parametrize("seed", range(25))
def test_each_source_tiles_and_the_last_has_all_that_was_not_skipped__A3_A4(seed: int) -> None:
    async def main() -> None:
        history = _History(seed)
        await history.play()
        content = history.world.disk.content(LOG)
        # one of no byte, where a kill left only the first line to compare (G4)
        sources = [each for each in history.world.stored() if each.ended != (0, "unsure")]
        *before, last = sources
        assert _check_tiles(last, content) == len(content)
        assert last.ended is None
        for stored in before:
            assert stored.ended == (_check_tiles(stored, content), "resent")
        assert len(before) <= history.done["resend"]
        assert history.lost or bool(last.attributes.get("resend")) == bool(before)

    run(main())
