"""The stage for scripted histories: the simulator's world, in which a test takes the steps."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any

from logdrive.model.units import KIB
from logdrive.pipeline.audit.audit import Verdict
from logdrive.pipeline.audit.sources import AuditedSource
from logdrive.services.pravega.client.controller import ControllerClient
from tests.simulation.history import World
from tests.simulation.hosts.applications import Applications, Life
from tests.simulation.hosts.process import Process, watched
from tests.simulation.hosts.programs import CONTROLLER_PORT, SCOPE, STREAM, AgentHost
from tests.simulation.peers.operators import OPERATOR, give_up_the_past, scaled
from tests.simulation.peers.reader import Tables, follow
from tests.simulation.plan import WINDOW_BYTES, AgentPlan, Plan, Unpack
from tests.simulation.trace import Trace, recorded
from tests.support.memory.rpc import reaching

_LOOK_SECONDS = 0.01  # between two looks
_QUIET_LOOKS, _QUIET_SECONDS = 5, 0.5  # all is settled after so many looks in so many seconds
_FOUND_SECONDS = 6.0  # agents have found every new file after so long
_LAST_LINES = 80  # of the trace, in the report of a failure
_FOREVER = 1e9  # seconds


class Scene(World):
    """A world whose steps a test takes itself, with names for its usual hosts."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        super().__init__(plan, trace)
        self.agent, self.receiver = self.agents[0], self.receivers[0]
        self.store: Process = self.processes["store"] if plan.shared else self.receiver

    @property
    def applications(self) -> Applications:
        """The applications on the first agent's host."""
        return self.agent.applications

    def append(self, file: str, data: bytes) -> Life:
        """Let an application on the first agent's host write *data*."""
        return self.applications.append(file, data)

    def balance(self, receiver: str) -> None:
        """Let the balancer pass all new connections to *receiver*."""
        self.network.resolve = lambda host: receiver if host == "balancer" else host

    async def until(
        self, so: Callable[[], bool], within: float = 60.0, *, every: float = _LOOK_SECONDS
    ) -> None:
        """Return once *so* returns True; it is called *every* so many seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within
        while not so():
            self._look()
            assert loop.time() < deadline, f"not so within {within:g} s"
            await asyncio.sleep(every)
        self._look()

    async def settled(self, within: float = 120.0) -> None:
        """Return once every running agent has found all files and had all lines acknowledged."""
        quiet = 0

        def still() -> bool:
            nonlocal quiet
            settled = (
                all(agent.settled for agent in self.agents if agent.running)
                and all(beat.settled for beat in self.beats)
                and all(liar.settled for liar in self.liars)
            )
            quiet = quiet + 1 if settled else 0
            return quiet > _QUIET_LOOKS

        await asyncio.sleep(_FOUND_SECONDS)
        await self.until(still, within, every=_QUIET_SECONDS / _QUIET_LOOKS)

    async def down(self, process: Process, *, power: bool = False) -> None:
        """Kill *process*; it stays down until its `start`."""
        process.kill(power=power, down=_FOREVER)
        await asyncio.sleep(_LOOK_SECONDS)

    async def retire(self, agent: AgentHost) -> None:
        """Stop *agent* for good; its host is not judged any more."""
        await agent.finish()
        self.agents.remove(agent)
        del self.processes[agent.name]

    async def rest(self) -> Verdict:
        """Wait until all is at rest, judge, stop all programs, and return the audit's verdict."""
        await self.conclude()
        return self.tables.verdict()

    async def read(self, tables: Tables | None = None) -> Verdict:
        """Read all stores, and return the audit's present verdict."""
        tables = tables or self.tables
        assert not await follow(self.network, self.plan, tables)
        return tables.verdict()

    async def scaled(self, how: str = "all") -> None:
        """Scale the stream at the store, and return once that is done."""
        async with self._controller() as controller:
            await scaled(controller, how, Random(1))

    async def given_up(self) -> None:
        """Delete all segments before those that the stream has now; return once that is done."""
        async with self._controller() as controller:
            now = {segment.name for segment in await controller.current_segments(SCOPE, STREAM)}
            await give_up_the_past(controller)
        self.tables.given_up.update(
            dict.fromkeys(place for place in self.tables.seen if place[1] not in now)
        )

    def _controller(self) -> AbstractAsyncContextManager[ControllerClient]:
        return reaching(self.network.host(OPERATOR))(self.store.name, CONTROLLER_PORT, None, None)

    def content(self, source: AuditedSource) -> bytes:
        """Return the bytes of *source* that the tables have."""
        return b"".join(row.data for row in self.tables.bronze().rows.get(source.source, ()))


@asynccontextmanager
async def scene(
    *,
    agents: int = 1,
    receivers: int = 1,
    beats: int = 0,
    shared: bool = False,
    balanced: bool = False,
    start: str = "beginning",
    delay: float = 0.0,
    capacity: int = 256 * KIB,
    sync_seconds: float = 0.0,
    controlled: bool = False,
    s2: bool = False,
    iggy: bool = False,
    faulty_iggy: str = "",
    tls: bool = True,
    old: tuple[str, ...] = (),
    unpack: Unpack = "no",
    liars: int = 0,
    **output: Any,
) -> AsyncIterator[Scene]:
    """Start so many agents, receivers, foreign peers (*beats*) and *liars*, and yield their scene.

    The programs of the hosts *old* are of the version before packs; all receivers have *unpack*.
    *output* adds to the table [output] of the agents' settings. On a failure the error gets the end
    of the trace as a note.
    """
    names = tuple(f"receiver{number}" for number in range(1, receivers + 1))
    hosts = ["balancer:5044"] if balanced else [f"{name}:5044" for name in names]
    settings = {
        "hosts": hosts,
        "windows_in_flight": 8,
        "window_bytes": WINDOW_BYTES,
        "compression": "none",
        **output,
    }
    plan = Plan(
        seed=1,
        agents=tuple(
            AgentPlan(f"agent{number}", settings, 300.0, start) for number in range(1, agents + 1)
        ),
        receivers=names,
        beats=tuple(f"beat{number}" for number in range(1, beats + 1)),
        shared=shared,
        balanced=balanced,
        delay=delay,
        jitter=0.0,
        capacity=capacity,
        sync_seconds=sync_seconds,
        log_file_bytes=256 * KIB,
        steps=(),
        scaled=controlled,
        s2=s2,
        iggy=iggy,
        faulty_iggy=faulty_iggy,
        tls=tls,
        old=old,
        unpack=dict.fromkeys(names, unpack) if unpack != "no" else {},
        liars=tuple(f"liar{number}" for number in range(1, liars + 1)),
    )
    trace = Trace(asyncio.get_running_loop().time)
    with recorded(trace):
        world = Scene(plan, trace)
        try:
            async with world.alive():
                await asyncio.sleep(_LOOK_SECONDS)  # all have begun, and found nothing yet
                yield world
        except AssertionError as error:
            error.add_note(trace.text(_LAST_LINES))
            raise
        finally:
            watched({})


def lines(first: int, count: int, what: str = "line") -> bytes:
    """Return numbered lines of 8 bytes beside *what*."""
    return b"".join(
        b"%s %06d\n" % (what.encode(), number) for number in range(first, first + count)
    )


def of_path(verdict: Verdict, path: str) -> list[AuditedSource]:
    """Return the audited sources of *path*, in the order of the verdict."""
    return [source for source in verdict.by_source if source.path == path]


def gaps_of(source: AuditedSource) -> list[tuple[int, int, str, bool]]:
    """Return the gaps of *source* as (start, end, reason, end_exact).

    Gaps without bytes, which say that an end is not known (ADR 5), are left out.
    """
    return [
        (gap.start, gap.end, gap.reason, gap.end_exact)
        for gap in source.gaps
        if gap.end > gap.start
    ]
