"""The steps of a history: a method for each kind, here or, for files, in `Applications`."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from fnmatch import fnmatch
from random import Random
from typing import Any

from tests.simulation.hosts.meddler import Deed
from tests.simulation.hosts.odd_files import FILE_KINDS
from tests.simulation.hosts.programs import AgentHost
from tests.simulation.judging.arrivals import NotAsWrittenError
from tests.simulation.peers.operators import scale
from tests.simulation.peers.reader import CutTooFarError, Tables, TakenBackError, follow
from tests.simulation.plan import Step
from tests.simulation.stage import Stage
from tests.support.memory.transport import Connection


class Steps(Stage):
    """A stage on which the steps of its plan are done."""

    async def _play(self) -> None:
        loop = asyncio.get_running_loop()
        for step in self.plan.steps:
            await asyncio.sleep(max(0.0, step.at - loop.time()))
            await self._do(step)
            self._look()

    async def _do(self, step: Step) -> None:
        self.trace.add("step", str(step))
        if step.kind in FILE_KINDS:
            getattr(self._agent(step.who).applications, step.kind)(**step.values)
            return
        happens: Callable[..., Coroutine[Any, Any, None] | None] = getattr(self, f"_{step.kind}")
        done = happens(step.who, **step.values)
        if done is not None:
            await done

    def _agent(self, name: str) -> AgentHost:
        return next(agent for agent in self.agents if agent.name == name)

    def _within(self, who: str, begin: str, does: list[list[Any]], seed: int) -> None:
        """Let applications change files between two disk calls of the agent."""
        agent = self._agent(who)

        def doing(kind: str, values: dict[str, Any]) -> Callable[[], None]:
            def do() -> None:
                self.trace.add("step", f"within a call: {Step(0.0, kind, who, values)}")
                agent.meddle(kind, values)

            return do

        deeds = [Deed("", calls, doing(kind, values)) for calls, kind, values in does]
        deeds[0].begin = begin
        agent.meddler.come_between(deeds)

    # Streams -------------------------------------------------------------------------------------

    def _scale(self, who: str, how: str, seed: int) -> None:
        self._meanwhile(scale(self.network, who, how, Random(seed)))

    def _count(self, who: str, times: int, seed: int) -> None:
        next(user for user in self.users if user.name == who).do(times)

    def _transact(self, who: str, times: int, seed: int) -> None:
        next(writer for writer in self.writers if writer.name == who).do(times)

    def _tick(self, who: str, times: int, seed: int) -> None:
        next(ticker for ticker in self.tickers if ticker.name == who).do(times)

    # Foreign peers -------------------------------------------------------------------------------

    def _burst(self, who: str, lines: int, **_: Any) -> None:
        next(beat for beat in self.beats if beat.name == who).burst(lines)

    def _lie(self, who: str, runs: int, seed: int) -> None:
        next(liar for liar in self.liars if liar.name == who).lie(runs)

    # Programs ------------------------------------------------------------------------------------

    def _kill(self, who: str, power: bool, down: float, seed: int) -> None:
        self.processes[who].kill(power=power, down=down)

    def _arm(
        self,
        who: str,
        point: str,
        passages: int,
        power: bool,
        down: float,
        seed: int,
        then_off: float = 0.0,
    ) -> None:
        self.processes[who].arm(point, passages, power=power, down=down, then_off=then_off)

    def _count_down(self, who: str, counts: list[int], begin: str, seed: int, **how: Any) -> None:
        self.processes[who].count_down(counts, begin, **how)

    def _stop(self, who: str, down: float, seed: int) -> None:
        self.processes[who].stop(down)

    def _install(self, who: str, old: bool, killed: bool, down: float, seed: int) -> None:
        self.processes[who].install(old=old, killed=killed, down=down)

    def _forget(self, who: str, power: bool, down: float, seed: int) -> None:
        self._agent(who).forget(power=power, down=down)

    async def _ask(self, who: str, what: str, seed: int) -> None:
        """Let an operator have what is in a file skipped, or sent again."""
        await self._agent(who).ask(what, Random(seed))

    def _reload(self, who: str, what: str, file: str, seconds: float, seed: int) -> None:
        agent = self._agent(who)
        agent.reload(what, file)

        async def take_back() -> None:
            await asyncio.sleep(seconds)
            agent.reload("all", file)

        if what == "file":
            self._meanwhile(take_back())

    def _roll(self, who: str, down: float, seed: int) -> None:
        async def roll() -> None:
            for receiver in self.receivers:
                receiver.stop(down)
                await asyncio.sleep(down + 6.0)

        self._meanwhile(roll())

    def _jump(self, who: str, ms: int, seed: int) -> None:
        self.processes[who].jump(ms)

    # Network and disk ----------------------------------------------------------------------------

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
        """Cut most connections of agents, as a balancer that forgets them does."""
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

    def _hole(
        self, who: str, other: str, to: list[str], seconds: float, reset: bool, seed: int
    ) -> None:
        """Let bytes vanish on the way, without a reset, for *seconds*."""

        async def end() -> None:
            await asyncio.sleep(seconds)
            self.network.give_back(who, other, reset=reset)

        self.network.swallow(who, other, frozenset(to))
        self._meanwhile(end())

    def _slow(self, who: str, seconds: float, lasting: float, seed: int) -> None:
        self._meanwhile(self.processes[who].slow(seconds, lasting))

    def _fail_write(self, who: str, error: str, after: int, times: int, seed: int) -> None:
        self.processes[who].fail_write(error, after, times)

    def _fail_read(self, who: str, error: str, calls: list[str], times: int, seed: int) -> None:
        self.processes[who].fail_read(error, calls, times)

    def _fail_sync(self, who: str, seed: int) -> None:
        self.processes[who].fail_sync()

    def _rot(self, who: str, file: str, seed: int) -> None:
        """Flip a bit in a file that a store can do without."""
        process, pick = self.processes[who], Random(seed)
        paths = [
            path
            for path in process.disk.paths()
            if fnmatch(path, file) and process.disk.content(path)
        ]
        if paths:
            path = pick.choice(paths)
            offset = pick.randrange(len(process.disk.content(path)))
            self.trace.add(who, f"a bit of {path} is another at {offset}")
            self.rotten |= {path, f"{path}.old"}  # the next checkpoint renames an index so
            process.disk.flip_bit(path, offset, pick.randrange(8))

    def _back_up(self, who: str, seed: int) -> None:
        """Back up the disk of a store, if it has the stream by then.

        A receiver that has found the stream does not create it again after a restore.
        """
        if not self.trace.heard.get(f"{who}: store opened"):
            return
        if self.plan.shared and not any(
            self.trace.heard.get(f"{receiver}: stream found") for receiver in self.plan.receivers
        ):
            return
        self._backups[who] = self.processes[who].disk.killed()

    def _restore(self, who: str, down: float, seed: int) -> None:
        """Restore a store from its backup.

        Agents send again what was acknowledged since, as far as their files are there.
        """
        backup = self._backups.pop(who, None)
        if backup is None:
            return
        self.trace.add(who, "restored from a backup")
        self.processes[who].set_back(backup, down=down)

        # what was read, or acknowledged to foreign peers, may be lost rightly
        self.set_back, self.tables = True, Tables()
        for beat in self.beats:
            beat.forget()
        for liar in self.liars:
            liar.forget()
        for agent in self.agents:
            agent.store_set_back = True
            agent.let_go()

    def _full(self, who: str, room: int, seconds: float, seed: int) -> None:
        self._meanwhile(self.processes[who].fill_up(room, seconds))

    async def _follow(self, who: str, seed: int) -> None:
        self._meanwhile(self._read_on())

    async def _read_on(self) -> None:
        # the last reading finds it again
        with suppress(TakenBackError, CutTooFarError, NotAsWrittenError):
            await follow(self.network, self.plan, self.tables)
