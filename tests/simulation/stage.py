"""All hosts of one history on one network, and what must hold of them at any moment."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from hashlib import sha256
from random import Random
from typing import Any

from logdrive.model.units import KIB
from logdrive.store.log.log import CommitGroup
from logdrive.store.reader import LogReader
from tests.simulation.hosts.process import Process, watched
from tests.simulation.hosts.programs import AgentHost, ReceiverHost, StoreHost
from tests.simulation.judging.weighing import weigh
from tests.simulation.peers.client import Client
from tests.simulation.peers.faulty_iggy import FaultyIggyHost
from tests.simulation.peers.liars import Liar
from tests.simulation.peers.odd_beats import beat_of
from tests.simulation.peers.operators import OPERATOR
from tests.simulation.peers.reader import Tables
from tests.simulation.peers.tables import TableUser
from tests.simulation.peers.tickers import Ticker
from tests.simulation.peers.transactions import TransactionWriter
from tests.simulation.plan import Plan
from tests.simulation.promises import BrokenPromise
from tests.simulation.trace import Trace
from tests.support.iggy.faulty import FaultyIggy
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork
from tests.support.watermarks import Watermark

_WEIGHED_EACH = 24
"""Looks from one weighing to the next: a weighing costs about a millisecond for each program."""
_AT_REST_BYTES = 64 * KIB
"""Limit on a program's bytes at rest, which are settings, names, and some buffers."""


class Stage:
    """The hosts of one plan, and its judge of every moment."""

    def __init__(self, plan: Plan, trace: Trace) -> None:
        self.plan, self.trace = plan, trace
        self.network = MemoryNetwork(Random(f"network {plan.seed}"))
        self.tables = Tables()
        self.agents = [AgentHost(agent, plan, self.network, trace) for agent in plan.agents]
        receivers = [ReceiverHost(name, plan, self.network, trace) for name in plan.receivers]
        stores: list[Process] = []
        if plan.faulty_iggy:
            stores.append(iggy := FaultyIggyHost("store", plan, self.network, trace))
            self.tables.peer = iggy.iggy
        elif plan.shared:
            stores.append(StoreHost("store", plan, self.network, trace))
        self.receivers = receivers
        self.processes: dict[str, Process] = {
            process.name: process for process in (*self.agents, *receivers, *stores)
        }
        doors = ["balancer"] if plan.balanced else list(plan.receivers)
        self.beats = [beat_of(name, doors, self.network, tls=plan.tls) for name in plan.beats]
        self.liars = [
            Liar(name, doors, self.network, Random(f"{name} {plan.seed}"), tls=plan.tls)
            for name in plan.liars
        ]
        self.users = [
            TableUser(name, plan.stores[0], self.network, Random(f"{name} {plan.seed}"))
            for name in plan.clients
        ]
        self.writers = [
            TransactionWriter(name, plan.stores[0], self.network, Random(f"{name} {plan.seed}"))
            for name in plan.writers
        ]
        self.tickers = [
            Ticker(
                name, plan.stores[0], self.network, Random(f"{name} {plan.seed}"), plan.patience_ms
            )
            for name in plan.tickers
        ]
        # the watermarks that were read last
        self.marks: list[Watermark] = []
        self._balance = Random(f"balancer {plan.seed}")
        # steps that take a while
        self._later: list[asyncio.Task[None]] = []
        # tasks that never end, unless by a mistake of the simulator's own
        self._peers: list[asyncio.Task[None]] = []
        # calls of `_look` so far
        self._looks = 0
        # store -> its disk when it was backed up
        self._backups: dict[str, MemoryDisk] = {}
        # files that are damaged on purpose
        self.rotten: set[str] = set()
        # True: a store was restored from a backup, and may lack what was acknowledged
        self.set_back = False

    @property
    def clients(self) -> list[Client]:
        """All foreign clients of a store."""
        return [*self.users, *self.writers, *self.tickers]

    def digest(self) -> str:
        """Return a hash of the trace and of every byte that the stores have."""
        whole = sha256(self.trace.digest().encode())
        for place, data in sorted(self.tables.seen.items()):
            whole.update(repr(place).encode() + data)
        return whole.hexdigest()

    @asynccontextmanager
    async def alive(self) -> AsyncIterator[None]:
        """Keep all programs running while the context lasts."""
        self._lay_network()
        watched(self.processes)
        tasks = [
            asyncio.create_task(process.supervise(), name=f"{name} supervisor")
            for name, process in self.processes.items()
        ]
        tasks += [asyncio.create_task(beat.run(), name=beat.name) for beat in self.beats]
        self._peers = [asyncio.create_task(liar.run(), name=liar.name) for liar in self.liars]
        tasks += self._peers
        tasks += [asyncio.create_task(client.run(), name=client.name) for client in self.clients]
        try:
            yield
        finally:
            for task in (*tasks, *self._later):
                task.cancel()
            await asyncio.gather(*tasks, *self._later, return_exceptions=True)

    def _lay_network(self) -> None:
        plan = self.plan
        servers = [*plan.receivers, *plan.stores]
        clients = *plan.clients, *plan.writers, *plan.tickers, OPERATOR
        for client in (
            *(agent.name for agent in plan.agents),
            *plan.beats,
            *plan.liars,
            *plan.receivers,
            *clients,
        ):
            for server in servers:
                link = self.network.link(client, server)
                link.delay, link.jitter, link.capacity = plan.delay, plan.jitter, plan.capacity
        self.network.resolve = self._resolve

    def _resolve(self, host: str) -> str:
        """Return the host behind a name; the balancer chooses among all receivers, down or not."""
        return self._balance.choice(self.plan.receivers) if host == "balancer" else host

    def _look(self) -> None:
        """Raise `BrokenPromise` unless all holds that must hold at any moment."""
        for process in self.processes.values():
            if process.failures:
                raise BrokenPromise(
                    "no program fails", f"{process.name}: {process.failures[0]!r}"
                ) from process.failures[0]
        for client in self.clients:
            if client.broken is not None:
                raise client.broken
        if self.network.failures:
            raise BrokenPromise(
                "no program fails", repr(self.network.failures[0])
            ) from self.network.failures[0]

        self._look_for_mistaken()
        for agent in self.agents:
            if not self.set_back and self.trace.heard.get(f"{agent.name}: store stepped back"):
                raise BrokenPromise(
                    "acknowledged is durable",
                    f"a store told {agent.name} of less than it had acknowledged",
                )
            if agent.in_flight > agent.plan.output["windows_in_flight"]:
                raise BrokenPromise(
                    "memory is bounded", f"{agent.name} has {agent.in_flight} windows in flight"
                )
            if agent.registered_bytes > (
                most := agent.most_connections
                * max(receiver.sources_bytes for receiver in self.receivers)
                // 2
            ):
                what = (
                    f"{agent.name} has registered sources of {agent.registered_bytes} bytes, "
                    f"at most {most} may be"
                )
                raise BrokenPromise("memory is bounded", what)

        self._looks += 1
        if self._looks % _WEIGHED_EACH == 0:
            self._weigh()

    def _look_for_mistaken(self) -> None:
        """Raise `BrokenPromise` for packs that went where none is taken, or that none may take."""
        for ended in (task for task in self._peers if task.done()):
            ended.result()
        for receiver in self.receivers:
            if receiver.misled:
                raise BrokenPromise(
                    "packs go where they are taken",
                    f"{receiver.misled[0]} sent one to {receiver.name}, which did not agree to it",
                )
        for liar in self.liars:
            if liar.taken:
                raise BrokenPromise(
                    "what contradicts itself is refused", f"{liar.name} sent {liar.taken}"
                )

    def _weigh(self) -> None:
        """Raise `BrokenPromise` if a program holds more bytes than its limit."""
        for name, process in self.processes.items():
            if (
                process.running
                and process.memory_bound is not None
                and (held := self._weight(name)) > process.memory_bound
            ):
                raise BrokenPromise(
                    "memory is bounded",
                    f"{name} holds {held} bytes, at most {process.memory_bound} may be",
                )

    def _weigh_at_rest(self) -> None:
        """Raise `BrokenPromise` if a program holds bytes of what was delivered.

        Not one whose peer is gone without a word: a kernel ends that connection by its keepalives
        within a minute, and what was received of a message with it; here there are none.
        """
        deaf = {
            host
            for connection in self.network.connections()
            if connection.silent
            for host in connection.hosts
        }
        for name in self.processes.keys() - deaf:
            if (held := self._weight(name)) > _AT_REST_BYTES:
                raise BrokenPromise(
                    "memory is given back", f"{name} is at rest and holds {held} bytes"
                )
        for receiver in self.receivers:
            if receiver.counted_bytes and receiver.name not in deaf:
                raise BrokenPromise(
                    "memory is given back",
                    f"{receiver.name} is at rest and counts {receiver.counted_bytes} bytes",
                )

    def _weight(self, name: str) -> int:
        """Return how many bytes *name* holds, without what a store caches of its last writes."""
        return weigh(name, (Process, Stage, LogReader, CommitGroup, FaultyIggy))

    def _unsettled(self) -> str:
        waiting = [beat.name for beat in self.beats if not beat.settled]
        waiting += [liar.name for liar in self.liars if not liar.settled]
        waiting += [client.name for client in self.clients if not client.settled]
        for host in self.agents:
            if not host.settled and host.agent is not None:
                sources = [source for source in host.agent.registry.sources if source.is_behind]
                waiting.append(
                    f"{host.name} ({host.agent.connection.problem}; "
                    f"{[(str(s.state), s.registration.problem, s.position) for s in sources]})"
                )
        return ", ".join(waiting)

    def _clients_settled(self) -> bool:
        return (
            all(beat.settled for beat in self.beats)
            and all(liar.settled for liar in self.liars)
            and all(client.settled for client in self.clients)
        )

    def _meanwhile(self, doing: Coroutine[Any, Any, None]) -> None:
        self._later = [task for task in self._later if not task.done()]
        self._later.append(asyncio.get_running_loop().create_task(doing, name="meanwhile"))
