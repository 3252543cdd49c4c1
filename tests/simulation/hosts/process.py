"""A host and its program: started, killed at any moment or fault point, powered off, stopped."""

import asyncio
import errno
from collections.abc import Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass
from random import Random

from logdrive.errors import LogdriveError
from logdrive.host import faults
from tests.simulation.hosts.meddler import Countdown, Failures, Meddler
from tests.simulation.hosts.versions import UNKNOWN_BEFORE
from tests.simulation.trace import SPEAKER, Trace
from tests.support.disks.watched import WatchedDisk
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.memory.transport import MemoryNetwork
from tests.support.virtual_time import VirtualClock

_RESTART_SECONDS = 1.0  # from the end of the program to its next start
_DRAIN_SECONDS = 200.0  # limit on the time that a stop takes


@dataclass(slots=True)
class _Armed:
    """A death at a fault point."""

    point: str
    passages: int  # of the point, the last one of which is the death
    power: bool  # True: a power cut, else a kill
    down: float  # seconds until the next start
    then_off: float  # seconds from that start to a power cut; 0 for none


class Process:
    """One host: its disk, its clock, its place on the network.

    `_main` is the program; `supervise` starts it whenever it has ended.
    """

    def __init__(
        self,
        name: str,
        network: MemoryNetwork,
        trace: Trace,
        seed: int,
        disk: MemoryDisk,
        sync_seconds: float = 0.0,
        *,
        below: str = "",
    ) -> None:
        self.name = name
        self.network = network
        self.trace = trace
        # as applications on the host have it
        self.disk = disk
        self.meddler = Meddler(self, below)
        # as the program has it
        self.watched_disk = WatchedDisk(disk, self.meddler)
        self.random = Random(f"{name} {seed}")
        self.clock = VirtualClock()
        self.executor = InlineExecutor(sync_seconds)
        # duration of a sync, now and without trouble
        self.sync_seconds = self._usual_sync_seconds = sync_seconds
        # starts so far
        self.incarnation = 0
        self.running = False
        # errors that ended the program and should not have
        self.failures: list[BaseException] = []
        # asks the program to end
        self._stop = asyncio.Event()
        # ends the time until the next start
        self._again = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # seconds until the next start
        self._restart_in = _RESTART_SECONDS
        self._armed: _Armed | None = None
        # True: the program is of the version before packs
        self.old = False
        # True: it will be from its next start on
        self.installed_old = False
        # True: no fault comes any more
        self._calmed = False
        # True: the program is not started again
        self._over = False

    async def _main(self, stop: asyncio.Event) -> None:
        """Run the program until *stop*."""
        raise NotImplementedError

    def _disk_after(self, power: bool) -> MemoryDisk:
        """Return the disk for the next incarnation."""
        return self.disk.crash(self.random) if power else self.disk.killed()

    def _expected(self, error: BaseException) -> bool:
        """Return whether the program may end with *error*: its disk failed."""
        return isinstance(error, LogdriveError | OSError) and self.disk_failed

    @property
    def memory_bound(self) -> int | None:
        """Limit on the bytes that the program holds at any time; None if nothing is promised."""
        return None

    @property
    def others_handles(self) -> Sequence[MemoryFile]:
        """The files that other programs on the host have open."""
        return ()

    # True: a step has asked for a fault of the disk, which may come at any time since
    disk_failed = False

    # Life and death ------------------------------------------------------------------------------

    async def supervise(self) -> None:
        """Run the program, and start it again whenever it has ended, until `finish`."""
        while not self._over:
            self._begin()
            assert self._task is not None
            await asyncio.wait([self._task])
            self.running = False
            self._note_end(self._task)

            # its connections end, and it is down for a while
            await self.network.vanish(self.name)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._restart_in):
                    await self._again.wait()

    def _begin(self) -> None:
        self.incarnation += 1
        self.old = self.installed_old
        self.network.host(self.name).unknown = UNKNOWN_BEFORE if self.old else frozenset()
        self._again.clear()
        self._stop, self._restart_in = asyncio.Event(), _RESTART_SECONDS
        self.executor = InlineExecutor(self.sync_seconds)
        self.watched_disk = WatchedDisk(self.disk, self.meddler)
        self.disk.forget_handles(self.others_handles)
        context = copy_context()
        context.run(SPEAKER.set, self.name)
        self._task = asyncio.get_running_loop().create_task(
            self._main(self._stop), name=self.name, context=context
        )
        self.running = True

    def _note_end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():  # killed
            return
        error = task.exception()
        if error is not None:
            self.trace.add(self.name, f"ended: {type(error).__name__}: {error}")
            if not self._expected(error):
                self.failures.append(error)

    def kill(self, *, power: bool = False, down: float = _RESTART_SECONDS) -> None:
        """End the program as SIGKILL does, or a power cut, for *down* seconds.

        What its tasks still do reaches neither disk nor network.
        """
        self._armed = None
        if not self.running or self._task is None:
            return
        self.trace.add(self.name, "powered off" if power else "killed")
        self.running = False
        self._restart_in = down
        # the old disk and connections are no longer those of the host
        self.watched_disk.watcher = None
        self.disk = self._disk_after(power)
        for connection in self.network.connections(self.name):
            connection.lose(self.name) if power else connection.cut()
        # a slow disk may hold its tasks for long: nobody is to reach them meanwhile
        self.network.free_ports(self.name)
        self._task.cancel()

    def start(self) -> None:
        """Start the program now if it is down."""
        if not self.running:
            self._again.set()

    def set_back(self, disk: MemoryDisk, *, down: float = _RESTART_SECONDS) -> None:
        """Kill the program, and start it on *disk*: a snapshot, a backup, or a clone's."""
        self.kill(down=down)
        self.disk = disk

    def stop(self, down: float = _RESTART_SECONDS) -> None:
        """Ask the program to end, as SIGTERM does, for *down* seconds."""
        if self.running:
            self.trace.add(self.name, "stopped")
            self._restart_in = down
            self._stop.set()

    def install(self, *, old: bool, killed: bool, down: float) -> None:
        """Install another version, or the present one again, and start it after *down* seconds."""
        self.trace.add(self.name, f"{'the version before' if old else 'this version'} is installed")
        self.installed_old = old
        if killed:
            self.kill(down=down)
        else:
            self.stop(down)

    def arm(
        self, point: str, passages: int, *, power: bool, down: float, then_off: float = 0.0
    ) -> None:
        """Kill the program when it passes *point* for the *passages*-th time from now.

        With *then_off* its power is cut so many seconds after the next start: what it found may not
        have been durable.
        """
        self._armed = _Armed(point, passages, power, down, then_off)

    def passed(self, point: str) -> None:
        """Note that the program is at the fault point *point*; it may die here."""
        armed = self._armed
        if armed is None or armed.point != point or not self.running:
            return
        armed.passages -= 1
        if armed.passages == 0:
            self.die(f"is at {point}", power=armed.power, down=armed.down, then_off=armed.then_off)

    def count_down(
        self,
        counts: list[int],
        begin: str,
        *,
        reads: bool,
        power: bool,
        down: float,
        then_off: float,
    ) -> None:
        """Kill the program, and its next lives, after some disk calls; see `Countdown`."""
        self.meddler.count_down(Countdown(list(counts), begin, reads, power, down, then_off))

    def die(self, why: str, *, power: bool, down: float, then_off: float = 0.0) -> None:
        """Kill the program where it is now, and raise `CancelledError` into it."""
        self.trace.add(self.name, why)
        self.kill(power=power, down=down)
        if then_off:
            asyncio.get_running_loop().call_later(down + then_off, self._off_again, down)
        raise asyncio.CancelledError

    def _off_again(self, down: float) -> None:
        if not self._calmed:
            self.kill(power=True, down=down)

    async def finish(self) -> None:
        """Stop the program for good. Raises TimeoutError if it does not end."""
        self._over, self._armed, self._restart_in = True, None, 0.0
        self.meddler.calm()
        self._stop.set()
        self._again.set()
        if self._task is not None:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await asyncio.wait([self._task])

    # Trouble -------------------------------------------------------------------------------------

    async def slow(self, seconds: float, lasting: float) -> None:
        """Let each sync take *seconds*, for *lasting* seconds."""
        self.sync_seconds = self.executor.delay = seconds
        await asyncio.sleep(lasting)
        self.sync_seconds = self.executor.delay = self._usual_sync_seconds

    def fail_write(self, error: str, after: int, times: int) -> None:
        """Let the next *times* writes fail with *error*, each *after* so many bytes."""
        self.disk_failed = True
        for _ in range(times):
            self.disk.fail_write(getattr(errno, error), after=after)

    def fail_read(self, error: str, calls: list[str], times: int) -> None:
        """Let the next *times* of *calls*, which only read, fail with *error*."""
        self.disk_failed = True
        self.meddler.fail(Failures(tuple(calls), getattr(errno, error), times))

    def fail_sync(self) -> None:
        """Let the next sync fail."""
        self.disk_failed = True
        self.disk.fail_sync()

    async def fill_up(self, room: int, seconds: float) -> None:
        """Leave only *room* bytes on the disk for *seconds*; a kill meanwhile changes nothing."""
        self.disk_failed = True
        self.disk.capacity = self.disk.used() + room
        await asyncio.sleep(seconds)
        self.disk.capacity = None

    def jump(self, ms: int) -> None:
        """Set the wall clock by *ms*."""
        self.clock.wall_ms += ms

    def calm(self) -> None:
        """Drop all faults that were asked for and have not happened yet."""
        self._armed, self._calmed = None, True
        self.meddler.calm()
        self.disk.mend()


def watched(processes: dict[str, Process]) -> None:
    """Report fault points to *processes*, by speaker; an empty dict ends that."""

    def reach(point: str) -> None:
        process = processes.get(SPEAKER.get())
        if process is not None:
            process.passed(point)

    faults.on_reach = reach if processes else None
