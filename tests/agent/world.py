"""A whole agent in memory and virtual time, with a disk, a network and receivers.

Tests write, rename and truncate files, and kill the agent.
"""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec

from agent.app import Agent, MakeWatcher
from agent.config.config import AgentConfig
from agent.inputs.files.paths.watcher import NoWatcher
from logdrive.host.host import Host
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.memory.transport import MemoryNetwork
from tests.support.reader_model import ReaderModel, Stored
from tests.support.virtual_time import VirtualClock

LOG = "/logs/app.log"


class World:
    """One host named "agent" and any number of readers. Use it inside a virtual-time loop."""

    def __init__(self, seed: int = 1, **inputs: Any) -> None:
        self.disk = MemoryDisk(["/logs", "/state"])
        self.random = random.Random(seed)
        self.network = MemoryNetwork(random.Random(seed))  # reads are split anywhere
        self.clock = VirtualClock()
        self.executor = InlineExecutor()
        self.host = "agent"  # the agent's host on the network
        self.readers: dict[str, ReaderModel] = {}
        self.settings: dict[str, Any] = {
            "agent": {"id": "a", "host": "h", "state_dir": "/state", "rescan_seconds": 5},
            "input": [{"paths": ["/logs/*.log*"], **inputs}],
            "output": {"hosts": ["reader:5044"], "tls": "off"},
        }
        self.agent: Agent | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()

    # Readers -------------------------------------------------------------------------------------

    async def reader(self, name: str = "reader", model: ReaderModel | None = None) -> ReaderModel:
        """Start a receiver on the host *name*."""
        model = model or self.readers.get(name) or ReaderModel(name)
        self.readers[name] = model
        await self.network.host(name).listen("0.0.0.0", 5044, None, model.accept)
        return model

    async def crash_reader(self, name: str = "reader") -> None:
        """Kill a receiver; what it stored stays."""
        await self.network.crash(name)

    # The agent -----------------------------------------------------------------------------------

    def start(self, make_watcher: MakeWatcher = lambda wake: NoWatcher(), **machine: Any) -> Agent:
        """Start the agent; *machine* are further arguments of `Agent`."""
        config = msgspec.convert(self.settings, AgentConfig)
        self._stop = asyncio.Event()
        self.agent = Agent(
            config,
            host=Host(
                clock=self.clock,
                disk=self.disk,
                transport=self.network.host(self.host, identity=f"dns:{self.host}"),
                executor=self.executor,
                random=self.random,
            ),
            **machine,
        )
        self._task = asyncio.get_running_loop().create_task(
            self.agent.run(self._stop, make_watcher), name="agent"
        )
        return self.agent

    async def ships(self, data: bytes, path: str = LOG) -> ReaderModel:
        """Start a receiver, write *data*, start the agent, and wait until the receiver has it."""
        reader = await self.reader()
        self.write(data, path)
        self.start()
        await self.settle()
        return reader

    async def kill(self) -> None:
        """End the agent as SIGKILL does: nothing more reaches the disk, and its connections are
        reset.
        """
        self.disk = self.disk.killed()
        self.network.cut(self.host)
        await self._over()

    async def _over(self) -> None:
        assert self._task is not None
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = self.agent = None

    async def stop(self) -> None:
        """End the agent as SIGTERM does."""
        assert self._task is not None
        self._stop.set()
        await self._task
        self._task = self.agent = None

    async def settle(self, seconds: float = 60.0) -> None:
        """Wait until all that can be sent was acknowledged, and some seconds more."""
        assert self.agent is not None
        agent = self.agent
        until = self.clock.monotonic() + seconds
        quiet = 0
        while quiet < 5:
            assert self._task is not None
            if self._task.done():
                self._task.result()
            await asyncio.sleep(0.3)
            busy = (
                any(
                    source.is_behind or source.ending is not None
                    for source in agent.registry.sources
                )
                or not agent.connection.is_settled
            )
            quiet = 0 if busy else quiet + 1
            assert self.clock.monotonic() < until, f"not settled: {agent.status()}"

    def forget(self) -> None:
        """Delete the checkpoint, as the loss of a disk would."""
        self.disk.remove("/state/checkpoint.json")

    # Files ---------------------------------------------------------------------------------------

    def write(self, data: bytes, path: str = LOG) -> None:
        """Append to a file, created where missing."""
        self.disk.write(path, data)

    def truncate(self, path: str = LOG, size: int = 0) -> None:
        """Cut a file."""
        file = self.disk.open(path, write=True)
        file.truncate(size)
        file.close()

    def stored(self, path: str = LOG, reader: str = "reader") -> list[Stored]:
        """Return what a receiver has of *path*."""
        return self.readers[reader].by_path(path)


def lines(start: int, count: int, *, prefix: str = "line") -> bytes:
    """Return numbered lines."""
    return b"".join(
        b"%s %06d\n" % (prefix.encode(), number) for number in range(start, start + count)
    )


def contents(stored: Sequence[Stored]) -> list[bytes]:
    """Return the data of each source."""
    return [each.content for each in stored]
