"""The programs under test on their hosts: the real agent, receiver and store."""

import asyncio
import contextlib
import errno
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import msgspec
import orjson

from agent.app import Agent
from agent.config.config import AgentConfig
from agent.inputs.files.copies.judge import REST_SECONDS
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.paths.watcher import NoWatcher
from agent.reload import Reloader
from agent.sources.registration import SourceState
from logdrive.host.disk import FileStat
from logdrive.host.host import Host
from logdrive.host.transport import Peer, Transport
from logdrive.model.units import KIB, MIB
from logdrive.net.settings import ServerTlsConfig
from logdrive.services import serve as store_app
from logdrive.services.config import StoreConfig, StoreListenConfig
from logdrive.services.iggy.server.config import IggyFaceConfig
from logdrive.services.pravega.server.config import ControllerConfig, PravegaFaceConfig
from logdrive.services.s2.server.config import S2FaceConfig
from logdrive.store.config import DirectoryConfig, RetentionConfig
from logdrive.store.limits import StoreLimits
from logdrive.wire.lumberjack.limits import SOURCE_BYTES
from receiver import app as receiver_app
from receiver.config import LimitsConfig, ListenConfig, ReceiverConfig, SinkConfig
from receiver.counters import Counters
from receiver.memory_budget import MemoryBudget
from receiver.outbox import WAITING_BYTES
from receiver.source_quota import SourceQuota
from tests.simulation.hosts.applications import LOGS, OLD
from tests.simulation.hosts.meddler import Failures
from tests.simulation.hosts.odd_files import OddApplications
from tests.simulation.hosts.process import Process
from tests.simulation.hosts.versions import TransportBefore
from tests.simulation.judging.left_out import EXCLUDED
from tests.simulation.judging.witnesses import Starts, Witness, begins_with, entry_of
from tests.simulation.plan import WINDOW_BYTES, AgentPlan, Plan
from tests.simulation.trace import Trace
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.memory.rpc import reaching, serving
from tests.support.memory.transport import MemoryNetwork

SCOPE, STREAM = "logs", "events"
BASIN, S2_PORT = "logs-basin", 8080
IGGY_PORT = 8090
SEGMENTS = 2  # of the stream at its beginning
FACE_PORT, CONTROLLER_PORT = 6000, 9090
READER = "pipeline"
"""Name of the reader that retention waits for."""
STATE = "/state"
STORE = "/store"
_END_AFTER_SECONDS = 3.0
_QUIET_SECONDS = 2.0
_RESCAN_SECONDS = 5.0
_READ_BRINGS = 512 * KIB
"""Bytes that a read adds: 256 KiB, unpacked a step at a time, and the beginning of a window."""
_STEP_OPENS = 2 * MIB
"""Limit on the bytes of an envelope that a step opens."""
_FORGOTTEN = f"{STATE}/checkpoint.json"
_TLS = ServerTlsConfig(cert="server.pem", key="server.key", ca="ca.pem")
_CLIENT_TLS = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}


class AgentHost(Process):
    """A host with applications, and an agent that tails what they write."""

    def __init__(self, plan: AgentPlan, whole: Plan, network: MemoryNetwork, trace: Trace) -> None:
        changes = count()
        # each change has its own time, as finer clocks give
        disk = MemoryDisk(
            [LOGS, OLD, STATE],
            now_ns=lambda: self.clock.now_ms() * 1_000_000 + next(changes) % 1_000_000,
        )
        disk.reuses_inodes = plan.inodes_reused
        disk.tells_births = plan.births_told
        disk.journalled = (LOGS, OLD)
        super().__init__(plan.name, network, trace, whole.seed, disk, below=LOGS)
        self.plan = plan
        # the client identity in its certificate
        self.identity = f"dns:{plan.name}"
        # its agent.toml, read at each start
        self.settings = _agent_settings(plan, tls=whole.tls)
        self.installed_old = plan.name in whole.old
        # no other store can tell such lives apart for an agent that has lost its checkpoint
        alike = len(whole.stores) == 1
        self.applications = OddApplications(plan.name, lambda: self.disk, self, trace, alike=alike)
        # the running agent, or the last one; None before the first start
        self.agent: Agent | None = None
        # asks the running agent to read its settings again
        self._hangup = asyncio.Event()
        # what each start found in the checkpoint
        self.starts = Starts()
        # witnesses of the change of files that is being made, with their generations
        self._looked_at: list[tuple[Witness, Generation]] = []
        # True: the next start finds no checkpoint
        self._forgets = False
        # True: the next start finds the checkpoint of another time
        self._set_back = False
        # intervals of files that operators had skipped
        self.skipped: list[tuple[int, int]] = []
        # whether a store was restored from a backup: it may lack what was acknowledged
        self.store_set_back = False

    async def _main(self, stop: asyncio.Event) -> None:
        if self._forgets and _FORGOTTEN in self.disk.paths():
            self.trace.add(self.name, "lost its checkpoint")
            self.disk.remove(_FORGOTTEN)
        self.starts.begin(
            self.incarnation, self.disk, _FORGOTTEN, lost=self._forgets or self._set_back
        )
        self._forgets = self._set_back = False
        transport = self.network.host(self.name, self.identity)
        self._hangup = asyncio.Event()
        agent = Agent(
            self._config(),
            host=Host(
                clock=self.clock,
                disk=self.watched_disk,
                transport=transport,
                executor=self.executor,
                random=self.random,
            ),
            open_files=self.plan.handles or sys.maxsize,
            reloader=Reloader(self._config, self._hangup),
        )
        self.agent = agent
        await agent.run(stop, lambda wake: NoWatcher())

    def calm(self) -> None:
        """End all faults; connections grow old no more, so that all comes to rest."""
        super().calm()
        output = self.settings["output"]
        if "max_connection_seconds" in output:
            lasting = {key: output[key] for key in output if key != "max_connection_seconds"}
            self.settings["output"] = lasting
            self._hangup.set()

    def _config(self) -> AgentConfig:
        config = msgspec.convert(self._settings_now, AgentConfig)
        # fewer open files than an operator may ask for
        few = msgspec.structs.replace(config.agent, max_open_files=self.plan.max_open_files)
        return msgspec.structs.replace(config, agent=few)

    def reload(self, what: str, file: str) -> None:
        """Change the settings, and have the agent read them if it runs.

        *what* is changed; "file" has no input ask for the files of the application *file* any more,
        "all" has inputs ask for all again.
        """
        output, [table] = self.settings["output"], self.settings["input"]
        match what:
            case "labels":
                count = table.get("fields", {}).get("reloads", 0)
                self.settings["input"] = [{**table, "fields": {"reloads": count + 1}}]
            case "mode":
                mode = "failover" if output.get("mode") == "balance" else "balance"
                self.settings["output"] = {**output, "mode": mode}
            case "windows":
                changed = 1 + output["windows_in_flight"] % 8
                most = int(self.plan.output["windows_in_flight"])
                self.settings["output"] = {**output, "windows_in_flight": min(changed, most)}
            case "file" | "all":
                left_out = [f"{LOGS}/{file}.*", f"{OLD}/{file}.*"] if what == "file" else []
                self.settings["input"] = [{**table, "exclude": left_out}]
                # what is let go is not held open any more
                self.let_go()
        self._hangup.set()

    @property
    def _settings_now(self) -> dict[str, Any]:
        """Its settings; an agent of the version before packs knows blocks in their place."""
        output = self.settings["output"]
        if not self.old or output.get("records") != "packed":
            return self.settings
        return {**self.settings, "output": {**output, "records": "block"}}

    def pose_as(self, name: str) -> None:
        """Become a clone of *name*: take its agent id, host name and certificate."""
        self.settings["agent"] |= {"id": name, "host": name}
        self.identity = f"dns:{name}"
        self.applications.host = name
        self._set_back = True

    def forget(self, *, power: bool, down: float) -> None:
        """Kill the agent and remove its checkpoint."""
        self._forgets = True
        self.kill(power=power, down=down)

    async def ask(self, what: str, pick: Random) -> None:
        """Ask the running agent to "skip" or "resend" one of its sources (rule A4)."""
        if not self.running or self.agent is None:
            return
        registry = self.agent.registry
        living = sorted(str(source.origin) for source in registry.sources if source.ended is None)
        if not living:
            return
        request = {"do": what, "source": pick.choice(living), "dry_run": False}
        # it may die of a disk call
        with contextlib.suppress(asyncio.CancelledError):
            line = await self.agent.operations.desk.answer(orjson.dumps(request) + b"\n")
            answer = orjson.loads(line)
            self.trace.add(self.name, answer["change"]["text"] if answer["ok"] else answer["error"])
            if answer["ok"] and what == "skip":
                self.skipped.append((answer["change"]["start"], answer["change"]["end"]))

    def set_back(self, disk: MemoryDisk, *, down: float = 1.0) -> None:
        """Kill the agent, and start it on *disk*, whose checkpoint is of another time."""
        self._set_back = True
        super().set_back(disk, down=down)

    def _disk_after(self, power: bool) -> MemoryDisk:
        """Return the disk after a kill or power cut.

        What applications wrote is durable: its loss is a scenario of its own.
        """
        if not power:
            return self.disk.killed()
        for directory in (LOGS, OLD):
            self.disk.sync_below(directory)
        self.applications.power_cut()
        disk = self.disk.crash(self.random)
        if self.plan.devices_renumbered:
            disk.device = self.random.randint(1, 3)
        return disk

    def knows(
        self, stat: FileStat, content: bytes | bytearray, taken: Iterable[Witness]
    ) -> Witness | None:
        """Return what the agent, or its checkpoint while it is down, knows of the file of *stat*.

        What it knows of earlier lives, those of *taken* or with another first line than *content*
        has, does not count.
        """
        if not self.running or self.agent is None:
            origins = (witness.origin for witness in taken)
            entry = entry_of(self.disk, _FORGOTTEN, stat.inode, content, origins)
            return Witness(self.incarnation, entry=entry) if entry else None

        followed = self.agent.tailer.followed.get((stat.device, stat.inode))
        if followed is None or not followed.generation.place.is_at(stat):
            return None  # it follows no such file, or an earlier life of it

        # with ESTALE its agent closes a file, and one without a name can't be opened again
        is_stale = self.meddler.still_fails_with(errno.ESTALE)
        held = followed.generation.file is not None and not is_stale
        source, first_line = followed.source, followed.generation.first_line
        if any(witness.source is source for witness in taken) or (
            first_line is not None and not begins_with(content, first_line.span, first_line.crc)
        ):
            source = None
        if not held and source is None:
            return None
        witness = Witness(self.incarnation, source, held=held)
        self._looked_at.append((witness, followed.generation))
        return witness

    def holds(self, stat: FileStat, witness: Witness) -> bool:
        """Return whether the agent of *witness* still has the file of *stat* open."""
        if not self.running or self.agent is None or self.incarnation != witness.incarnation:
            return False
        followed = self.agent.tailer.followed.get((stat.device, stat.inode))
        return followed is not None and followed.generation.file is not None

    def fail_read(self, error: str, calls: list[str], times: int) -> None:
        """Let the next calls fail; with ESTALE, files without a name can't be read any more."""
        self.meddler.fail(Failures(tuple(calls), getattr(errno, error), times))
        if error == "ESTALE":
            self.let_go()

    def let_go(self) -> None:
        """Count no file that is gone as held open any more."""
        for life in self.applications.lives:
            if life.witness is not None:
                life.witness.held = False

    def meddle(self, kind: str, values: dict[str, Any]) -> None:
        """Let applications change files while the agent is looking at its files.

        A file that the agent closes in the same look does not count as held: it believed what it
        saw just before.
        """
        self._looked_at.clear()
        getattr(self.applications, kind)(**values)
        for witness, generation in self._looked_at:
            asyncio.get_running_loop().call_soon(_look_again, witness, generation)

    @property
    def others_handles(self) -> Sequence[MemoryFile]:
        """The files that applications have open."""
        return self.applications.handles

    @property
    def settled(self) -> bool:
        """True if all that the agent knows of is acknowledged."""
        agent = self.agent
        if not self.running or agent is None:
            return False
        files = agent.tailer.followed.values()
        if any(followed.trouble for followed in files):
            return False  # a file can't be read now, perhaps for want of a handle
        if any(followed.held and self._grew_lately(followed) for followed in files):
            return False  # it is not decided yet whether it is a copy
        return agent.connection.is_settled and not any(
            source.is_behind or source.ending is not None for source in agent.registry.sources
        )

    def _grew_lately(self, followed: FollowedFile) -> bool:
        quiet = self.clock.monotonic() - followed.generation.grown_at
        return quiet < REST_SECONDS + _RESCAN_SECONDS

    @property
    def registered_bytes(self) -> int:
        """Bytes of the receiver's memory that its registered sources take, by our own count."""
        if not self.running or self.agent is None or self.plan.plain:
            return 0
        registry = self.agent.registry
        registered = [source for source in registry.sources if source.state is SourceState.OPEN]
        return sum(SOURCE_BYTES + len(registry.attributes_of(source)) for source in registered)

    @property
    def in_flight(self) -> int:
        """Windows sent on one connection and not acknowledged."""
        if not self.running or self.agent is None:
            return 0
        return max((session.in_flight for session in self.agent.connection.sessions), default=0)

    @property
    def memory_bound(self) -> int:
        """Limit on its bytes: runs of the windows in flight, and a read of the file beside each."""
        windows = int(self.plan.output["windows_in_flight"]) + 2
        return self.most_connections * windows * (WINDOW_BYTES + 512 * KIB)

    @property
    def most_connections(self) -> int:
        """Limit on its connections: after a reload some are ended while others are made."""
        return 2 * len(self.plan.output["hosts"])


def _look_again(witness: Witness, generation: Generation) -> None:
    if generation.file is None:
        witness.held = False


def _agent_settings(plan: AgentPlan, *, tls: bool) -> dict[str, Any]:
    return {
        "agent": {
            "id": plan.name,
            "host": plan.name,
            "state_dir": STATE,
            "rescan_seconds": _RESCAN_SECONDS,
            "close_idle_seconds": plan.close_idle_seconds,
            **({"keep_removed_bytes": plan.keep_removed_bytes} if plan.keep_removed_bytes else {}),
        },
        "input": [
            {
                "paths": [f"{LOGS}/*.log*", f"{OLD}/*.log*"],
                "start": plan.start,
                "quiet_seconds": _QUIET_SECONDS,
                "end_after_seconds": _END_AFTER_SECONDS,
                **({"multiline": _SEVERAL_LINES} if plan.several_lines else {}),
                **({"longest_event_bytes": plan.longest} if plan.longest else {}),
                "encoding": plan.encoding,
                "processor": [_PROCESSORS[name] for name in plan.processors],
            }
        ],
        "output": {**plan.output, "tls": _CLIENT_TLS if tls else "off"},
    }


_SEVERAL_LINES = {"start": r"line \d*[05]\b", "max_lines": 20, "max_seconds": 0.5}
"""The [input.multiline] table of some agents."""
_PROCESSORS = {
    "exclude": {"exclude": {"pattern": EXCLUDED.pattern.decode()}},
    "add": {"add": {"fields": {"team": "payments"}}},
}
"""The [[input.processor]] tables of some agents, by the names of `PROCESSORS`."""


class ReceiverHost(Process):
    """A receiver, with a store of its own or one over the network."""

    def __init__(self, name: str, plan: Plan, network: MemoryNetwork, trace: Trace) -> None:
        super().__init__(
            name, network, trace, plan.seed, MemoryDisk(), 0.0 if plan.shared else plan.sync_seconds
        )
        # of the running receiver, or the last one; None before the first start
        self.counters: Counters | None = None
        self.shares: SourceQuota | None = None
        self._memory: MemoryBudget | None = None
        self._plan = plan
        # limit on its peers
        self._clients = len(plan.agents) + len(plan.beats) + len(plan.liars)
        self.installed_old = name in plan.old
        # peers whose packs it did not understand, with TLS
        self.misled: list[str] = []

    async def _main(self, stop: asyncio.Event) -> None:
        host = self.network.host(self.name, f"cn:{self.name}")
        transport: Transport = host
        if self.old:
            transport = TransportBefore(host, self._refused)
        await receiver_app.run(
            self._config,
            host=Host(
                clock=self.clock,
                disk=self.watched_disk,
                transport=transport,
                executor=self.executor,
                random=self.random,
                serve_rpc=serving(host),
            ),
            stop=stop,
            started=self._started,
            controllers=reaching(host),
            outbox_bytes=self._plan.outbox_bytes or WAITING_BYTES,
        )

    def _refused(self, peer: Peer) -> None:
        if peer.secure:
            self.misled.append(peer.address)

    def _started(self, started: receiver_app.Started) -> None:
        self.counters, self._memory, self.shares = started.counters, started.memory, started.shares

    @property
    def _config(self) -> ReceiverConfig:
        """Its receiver.toml; the version before does not know `unpack`."""
        return _receiver_config(self.name, self._plan.kept_packed() if self.old else self._plan)

    @property
    def sources_bytes(self) -> int:
        """Limit on the bytes of its memory for sources."""
        return self._config.limits.sources_bytes

    def calm(self) -> None:
        """End all faults; a receiver with room for few sources is given more, and starts again."""
        super().calm()
        if self._plan.sources_bytes:
            self._plan = replace(self._plan, sources_bytes=0)
            self.stop()

    @property
    def counted_bytes(self) -> int:
        """Bytes of its budget that the receiver counts as used."""
        return self._memory.used if self.running and self._memory is not None else 0

    @property
    def memory_bound(self) -> int:
        """Limit on its bytes: the configured one, a read for each connection, lost or not, and what
        the one connection holds that goes on beyond the limit to end its window.

        That one stops between two steps, of which each may open a whole envelope: more than the
        smallest limits here, and held twice while its events become batches.
        """
        overdrawn = self._memory._overdrawn if self._memory is not None else None
        return (
            self._config.limits.total_bytes
            + (len(self.network.connections(self.name)) + self._clients) * _READ_BRINGS
            + min(overdrawn.used if overdrawn is not None else 0, 2 * _STEP_OPENS)
        )


def _receiver_config(name: str, plan: Plan) -> ReceiverConfig:
    port = CONTROLLER_PORT if plan.scaled else FACE_PORT
    uri = (
        f"s2://store:{S2_PORT}/{BASIN}/{STREAM}"
        if plan.s2
        else f"iggy://store:{IGGY_PORT}/{SCOPE}/{STREAM}"
        if plan.iggy
        else f"pravega://store:{port}/{SCOPE}/{STREAM}"
        if plan.shared
        else f"file://{STORE}#{SCOPE}/{STREAM}"
    )
    face = None if plan.shared else _face()
    return ReceiverConfig(
        listen=ListenConfig(
            address="0.0.0.0:5044",
            tls=_TLS if plan.tls else "off",
            pravega=face,
            controller=None if plan.shared else _controller(name, plan),
        ),
        sink=SinkConfig(
            uri=uri,
            segments=SEGMENTS,
            log_file_bytes=plan.log_file_bytes,
            direct_io=plan.direct,
            tls="off" if plan.shared else None,
            unpack=plan.unpack.get(name, "no"),
        ),
        limits=LimitsConfig(
            connection_bytes=plan.receiver_bytes // 2,
            total_bytes=plan.receiver_bytes,
            sources_bytes=plan.sources_bytes or LimitsConfig().sources_bytes,
        ),
        retention=() if plan.shared else _retention(plan),
        drain_seconds=5.0,
    )


def _face() -> PravegaFaceConfig:
    return PravegaFaceConfig(address=f"0.0.0.0:{FACE_PORT}", tls="off")


def _s2_face() -> S2FaceConfig:
    return S2FaceConfig(address=f"0.0.0.0:{S2_PORT}", tls="off")


def _iggy_face() -> IggyFaceConfig:
    return IggyFaceConfig(address=f"127.0.0.1:{IGGY_PORT}", tls="off")


def _controller(name: str, plan: Plan) -> ControllerConfig | None:
    if not plan.scaled:
        return None
    return ControllerConfig(
        address=f"0.0.0.0:{CONTROLLER_PORT}", tls="off", advertise=f"{name}:{FACE_PORT}"
    )


def _retention(plan: Plan) -> tuple[RetentionConfig, ...]:
    if not plan.retained:
        return ()
    age = plan.kept_ms / 1000 if plan.kept_ms else None
    return (
        RetentionConfig(
            stream=f"{SCOPE}/{STREAM}",
            max_bytes=plan.kept_bytes or None,
            max_age_seconds=age,
            readers=(READER,),
        ),
    )


class StoreHost(Process):
    """The streaming service that all receivers share."""

    def __init__(self, name: str, plan: Plan, network: MemoryNetwork, trace: Trace) -> None:
        super().__init__(name, network, trace, plan.seed, MemoryDisk(), plan.sync_seconds)
        listen = StoreListenConfig(
            pravega=_face(),
            controller=_controller(name, plan),
            s2=_s2_face() if plan.s2 else None,
            iggy=_iggy_face() if plan.iggy else None,
        )
        self._config = StoreConfig(
            store=DirectoryConfig(path=STORE, direct_io=plan.direct),
            listen=listen,
            retention=_retention(plan),
        )
        usual = StoreLimits(log_file=plan.log_file_bytes)
        self._limits = replace(usual, pending=plan.pending_bytes or usual.pending)

    async def _main(self, stop: asyncio.Event) -> None:
        transport = self.network.host(self.name, f"cn:{self.name}")
        await store_app.serve_store(
            self._config,
            host=Host(
                clock=self.clock,
                disk=self.watched_disk,
                transport=transport,
                executor=self.executor,
                random=self.random,
                serve_rpc=serving(transport),
            ),
            stop=stop,
            limits=self._limits,
        )
