"""What may happen in a history: a method for each kind of step, here or, for files, in `Applications`."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from tests.simulation.arrivals import NotAsWrittenError
from tests.simulation.files import FILE_KINDS
from tests.simulation.operators import scale
from tests.simulation.plan import Step
from tests.simulation.reader import CutTooFarError, TakenBackError, follow
from tests.simulation.stage import Stage
from tests.support.memory_transport import Connection


class Steps(Stage):
    """A stage where things happen."""

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        for step in self.plan.steps:
            await asyncio.sleep(max(0.0, step.at - loop.time()))
            await self._do(step)
            self._look()

    async def _do(self, step: Step) -> None:
        self.trace.add("step", str(step))
        if step.kind in FILE_KINDS:
            applications = next(agent.applications for agent in self.agents if agent.name == step.who)
            getattr(applications, step.kind)(**step.values)
            return
        happens: Callable[..., Coroutine[Any, Any, None] | None] = getattr(self, f"_{step.kind}")
        done = happens(step.who, **step.values)
        if done is not None:
            await done

    # Streams ---------------------------------------------------------------------------------------------------------

    def _scale(self, who: str, how: str, seed: int) -> None:
        self._meanwhile(scale(self.network, who, how, Random(seed)))

    def _count(self, who: str, times: int, seed: int) -> None:
        next(user for user in self.users if user.name == who).do(times)

    def _transact(self, who: str, times: int, seed: int) -> None:
        next(writer for writer in self.writers if writer.name == who).do(times)

    def _tick(self, who: str, times: int, seed: int) -> None:
        next(ticker for ticker in self.tickers if ticker.name == who).do(times)

    # Foreign writers -------------------------------------------------------------------------------------------------

    def _burst(self, who: str, lines: int, **_: Any) -> None:
        next(beat for beat in self.beats if beat.name == who).burst(lines)

    # Programs --------------------------------------------------------------------------------------------------------

    def _kill(self, who: str, power: bool, down: float, seed: int) -> None:
        self.processes[who].kill(power=power, down=down)

    def _arm(self, who: str, point: str, passages: int, power: bool, down: float, seed: int, then_off: float = 0.0) -> None:
        self.processes[who].arm(point, passages, power=power, down=down, then_off=then_off)

    def _stop(self, who: str, down: float, seed: int) -> None:
        self.processes[who].stop(down)

    def _forget(self, who: str, power: bool, down: float, seed: int) -> None:
        next(agent for agent in self.agents if agent.name == who).forget(power=power, down=down)

    def _roll(self, who: str, down: float, seed: int) -> None:
        async def roll() -> None:
            for receiver in self.receivers:
                receiver.stop(down)
                await asyncio.sleep(down + 6.0)

        self._meanwhile(roll())

    def _jump(self, who: str, ms: int, seed: int) -> None:
        self.processes[who].jump(ms)

    # Network and disk ------------------------------------------------------------------------------------------------

    def _cut(self, who: str, how: str, seconds: float, seed: int) -> None:
        for connection in self.network.connections(who):
            if how == "reset":
                connection.cut()
            elif how == "half_open":
                connection.lose(who)
            elif how == "half_close":
                connection.end_writing(Random(seed).choice(connection.hosts))
            else:
                connection.stall()
                self._meanwhile(self._resume(connection, seconds))

    async def _resume(self, connection: Connection, seconds: float) -> None:
        await asyncio.sleep(seconds)
        connection.resume()

    def _move(self, who: str, seed: int) -> None:
        """The balancer forgets its connections."""
        pick = Random(seed)
        for agent in self.agents:
            for connection in self.network.connections(agent.name):
                if pick.random() < 0.7:
                    connection.cut()

    def _part(self, who: str, other: str, seconds: float, seed: int) -> None:
        async def heal() -> None:
            await asyncio.sleep(seconds)
            self.network.heal(who, other)

        self.network.partition(who, other)
        self._meanwhile(heal())

    def _slow(self, who: str, seconds: float, lasting: float, seed: int) -> None:
        self._meanwhile(self.processes[who].slow(seconds, lasting))

    def _fail_write(self, who: str, error: str, after: int, times: int, seed: int) -> None:
        self.processes[who].fail_write(error, after, times)

    def _fail_sync(self, who: str, seed: int) -> None:
        self.processes[who].fail_sync()

    def _full(self, who: str, room: int, seconds: float, seed: int) -> None:
        self._meanwhile(self.processes[who].fill_up(room, seconds))

    async def _follow(self, who: str, seed: int) -> None:
        self._meanwhile(self._read_on())

    async def _read_on(self) -> None:
        with suppress(TakenBackError, CutTooFarError, NotAsWrittenError):  # the last reading finds it again
            await follow(self.network, self.plan, self.tables)
