"""Runs one plan from its first step to the verdict, in virtual time."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any

from logdrive.limits import KIB
from tests.simulation.beats import Beat
from tests.simulation.files import FILE_KINDS
from tests.simulation.hosts import AgentHost, ReceiverHost, StoreHost
from tests.simulation.operators import OPERATOR, scale
from tests.simulation.oracle import BrokenPromise, judge
from tests.simulation.plan import WINDOW_BYTES, Plan, Step
from tests.simulation.process import Process, watched
from tests.simulation.reader import CutTooFarError, Tables, TakenBackError, follow
from tests.simulation.trace import Trace, recorded
from tests.support.memory_transport import Connection, MemoryNetwork
from tests.support.virtual_time import DeadlockError, VirtualTimeLoop

REST_SECONDS = 400.0
"""After the last fault everything must have arrived within so long: more than the longest backoff and time limit on the way."""
_QUIET_LOOKS = 8
_LOOK_SECONDS = 0.5
_END_SECONDS = 12.0
"""How long what applications removed may take to be told as ended or gone."""
_FOLLOW_TRIES = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a history ended. *broken* is None where every promise held; *digest* names the history to the byte."""

    plan: Plan
    broken: BrokenPromise | None
    trace: Trace
    digest: str
    events: int
    seconds: float


def play(plan: Plan) -> Outcome:
    """Play *plan* and judge it. What is no broken promise but a mistake of the simulator's is raised."""
    loop = VirtualTimeLoop()
    trace = Trace(loop.time)
    with _no_collector(), recorded(trace), asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop()
        world = World(plan, trace)
        broken: BrokenPromise | None = None
        try:
            runner.run(world.run())
        except BrokenPromise as error:
            broken = error
        except DeadlockError as error:
            broken = BrokenPromise("everything arrives", str(error))
        finally:
            watched({})
        if broken is not None:
            trace.add("judge", str(broken))
        return Outcome(plan, broken, trace, world.digest(), sum(batch.head.rows for batch in world.tables.batches), loop.time())


@contextmanager
def _no_collector() -> Iterator[None]:
    """Keep the garbage collector away: what it ends, and when, would depend on the histories played before."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class World:
    """All hosts of one history, and what may happen to them: a method for each kind of step, here or, for files, in `Applications`."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        self.plan, self.trace = plan, trace
        self.network = MemoryNetwork(Random(f"network {plan.seed}"))
        self.tables = Tables()
        self.agents = [AgentHost(agent, plan, self.network, trace) for agent in plan.agents]
        receivers = [ReceiverHost(name, plan, self.network, trace) for name in plan.receivers]
        stores = [StoreHost("store", plan, self.network, trace)] if plan.shared else []
        self.receivers = receivers
        self.processes: dict[str, Process] = {process.name: process for process in (*self.agents, *receivers, *stores)}
        self.beats = [Beat(name, ["balancer"] if plan.balanced else list(plan.receivers), self.network) for name in plan.beats]
        self._balance = Random(f"balancer {plan.seed}")
        self._later: list[asyncio.Task[None]] = []
        self.set_back = False
        """A store was set back to an earlier state on purpose: agents may be told of less than they had acknowledged."""

    def digest(self) -> str:
        """Return a hash of the trace and of every byte that the stores have."""
        whole = sha256(self.trace.digest().encode())
        for place, data in sorted(self.tables.seen.items()):
            whole.update(repr(place).encode() + data)
        return whole.hexdigest()

    async def run(self) -> None:
        """Play all steps, let everything come to rest, judge. Raises `BrokenPromise`."""
        async with self.alive():
            await self._play()
            await self.conclude()

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Keep all programs running while the context lasts."""
        self._lay_network()
        watched(self.processes)
        tasks = [asyncio.create_task(process.supervise(), name=f"{name} supervisor") for name, process in self.processes.items()]
        tasks += [asyncio.create_task(beat.run(), name=beat.name) for beat in self.beats]
        try:
            yield
        finally:
            for task in (*tasks, *self._later):
                task.cancel()
            await asyncio.gather(*tasks, *self._later, return_exceptions=True)

    async def conclude(self) -> None:
        """Let everything come to rest, and judge. Raises `BrokenPromise`."""
        try:
            await self._rest()
            await self._read_all()
            self._look()
            judge(self.agents, self.beats, self.tables)
            await self._finish()
        except TakenBackError as error:
            raise BrokenPromise("durable is durable", str(error)) from error
        except CutTooFarError as error:
            raise BrokenPromise("retention cuts only what was read", str(error)) from error

    # The course of it ------------------------------------------------------------------------------------------------

    def _lay_network(self) -> None:
        plan = self.plan
        servers = [*plan.receivers, *plan.stores]
        for client in (*(agent.name for agent in plan.agents), *plan.beats, *plan.receivers, OPERATOR):
            for server in servers:
                link = self.network.link(client, server)
                link.delay, link.jitter, link.capacity = plan.delay, plan.jitter, plan.capacity
        self.network.resolve = self._resolve

    def _resolve(self, host: str) -> str:
        """Let the balancer choose, among all: it has not noticed yet who is down."""
        return self._balance.choice(self.plan.receivers) if host == "balancer" else host

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

    async def _rest(self) -> None:
        """End all faults, write last lines, and wait until everything was acknowledged.

        Raises `BrokenPromise` where that takes too long.
        """
        await asyncio.gather(*self._later)
        self.trace.add("step", "calm: nothing more goes wrong")
        for process in self.processes.values():
            process.calm()
        for client in (*(agent.name for agent in self.plan.agents), *self.plan.receivers):
            for server in (*self.plan.receivers, *self.plan.stores):
                self.network.heal(client, server)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REST_SECONDS
        while down := [name for name, process in self.processes.items() if not process.running]:
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()
            if loop.time() > deadline:
                raise BrokenPromise("everything arrives", f"{', '.join(down)} can't be started")
        for agent in self.agents:
            agent.applications.last_lines()
        await asyncio.sleep(_END_SECONDS)
        quiet = 0
        while quiet < _QUIET_LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()
            settled = all(agent.settled for agent in self.agents) and all(beat.settled for beat in self.beats)
            quiet = quiet + 1 if settled else 0
            if loop.time() > deadline:
                raise BrokenPromise("everything arrives", f"not at rest {REST_SECONDS:g} s after the last fault: {self._unsettled()}")

    def _unsettled(self) -> str:
        waiting = [beat.name for beat in self.beats if not beat.settled]
        for host in self.agents:
            if not host.settled and host.agent is not None:
                sources = [source for source in host.agent.book.sources if source.kept or source.has_more]
                waiting.append(f"{host.name} ({host.agent.connection.problem}; {[(str(s.state), s.problem, s.position) for s in sources]})")
        return ", ".join(waiting)

    async def _read_all(self) -> None:
        """Read to the end, and once more from the start."""
        for again in (False, True):
            for _ in range(_FOLLOW_TRIES):
                away = await follow(self.network, self.plan, self.tables, again=again)
                if not away:
                    break
            else:
                raise BrokenPromise("everything arrives", f"{', '.join(away)} could not be read")

    async def _finish(self) -> None:
        """Stop all programs as an operator does, and hear whether that went well."""
        for processes in (self.agents, self.receivers, list(self.processes.values())):
            for process in processes:
                try:
                    await process.finish()
                except TimeoutError:
                    raise BrokenPromise("a stop ends a program", process.name) from None
        self._look()

    def _look(self) -> None:
        """Check what must hold at any moment."""
        for process in self.processes.values():
            if process.failures:
                raise BrokenPromise("no program fails", f"{process.name}: {process.failures[0]!r}") from process.failures[0]
        if self.network.failures:
            raise BrokenPromise("no program fails", repr(self.network.failures[0])) from self.network.failures[0]
        for agent in self.agents:
            if not self.set_back and self.trace.heard.get(f"{agent.name}: store stepped back"):
                raise BrokenPromise("acknowledged is durable", f"a store told {agent.name} of less than it had acknowledged")
            bound = (agent.plan.output["windows_in_flight"] + 2) * (WINDOW_BYTES + 512 * KIB)
            if agent.held_bytes > bound:
                raise BrokenPromise("memory is bounded", f"{agent.name} holds {agent.held_bytes} bytes of runs, at most {bound} may be")
            if agent.in_flight > agent.plan.output["windows_in_flight"]:
                raise BrokenPromise("memory is bounded", f"{agent.name} has {agent.in_flight} windows in flight")
        for receiver in self.receivers:
            held, most = receiver.held_bytes
            if held > most:
                raise BrokenPromise("memory is bounded", f"{receiver.name} holds {held} bytes, at most {most} may be")

    # Streams ---------------------------------------------------------------------------------------------------------

    def _scale(self, who: str, how: str, seed: int) -> None:
        self._meanwhile(scale(self.network, who, how, Random(seed)))

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
        with suppress(TakenBackError, CutTooFarError):  # the last reading finds it again
            await follow(self.network, self.plan, self.tables)

    def _meanwhile(self, doing: Coroutine[Any, Any, None]) -> None:
        self._later = [task for task in self._later if not task.done()]
        self._later.append(asyncio.get_running_loop().create_task(doing, name="meanwhile"))
