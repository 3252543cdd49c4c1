"""Runs an asyncio program with the real clock, disk, network and threads; handles stop signals."""

import asyncio
import resource
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from logdrive.host.clock import Clock, SystemClock
from logdrive.host.disk import Disk, SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.first_process import release_signals
from logdrive.host.heap import settle_heap
from logdrive.host.host import Host
from logdrive.host.transport import Transport
from logdrive.net.tcp import SystemTransport

T = TypeVar("T")

PACKING_THREADS = 2
"""Threads of an agent: one compresses a window while the other begins the next one."""
_OWN_FILES = 128
"""Files that accepted connections leave to the process: a store holds 64 open for its readers."""


@dataclass(frozen=True, kw_only=True)
class Machine(Host):
    """The host's real clock, disk, network …, and *stop*, the event that asks a program to end.

    *hangup* is the one that asks it to reload.
    """

    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=SystemDisk)
    transport: Transport = field(default_factory=SystemTransport)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    hangup: asyncio.Event = field(default_factory=asyncio.Event)
    open_files: int = 1024
    """Limit on files and connections that the process may have open."""


def raise_open_files_limit() -> int:
    """Raise the soft limit on open files to the hard limit; return the limit that now applies.

    The default soft limit is low (1,024) for the sake of programs that use select().
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft  # refused, as in some containers: programs adapt to the limit
    return hard


def accepted_limit(max_connections: int, open_files: int) -> int:
    """Return the limit on accepted connections, of which each takes one of *open_files*.

    Without some left, whoever only connects would keep a store from its next log file.
    """
    return min(max_connections, open_files - min(_OWN_FILES, open_files // 2))


def stop_signals() -> list[signal.Signals]:
    """Return the signals that ask a program to end: SIGTERM, SIGINT, and SIGHUP unless ignored.

    nohup has SIGHUP ignored.
    """
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hangs_up else [])]


def run_program(
    program: Callable[[Machine], Coroutine[Any, Any, T]],
    *,
    threads: int = 1,
    max_connections: int = 10_000,
    reloads: bool = False,
) -> T:
    """Run *program* to its end and return its result.

    *threads* is the size of the executor. The first of `stop_signals` sets `Machine.stop`, which
    *program* must heed; a second signal ends the process. With *reloads* each SIGHUP sets
    `Machine.hangup` instead, ignored before or not.
    """

    settle_heap()
    open_files = raise_open_files_limit()

    async def run_until_complete() -> T:
        transport = SystemTransport(max_connections=accepted_limit(max_connections, open_files))
        machine = Machine(
            executor=ThreadExecutor("logdrive", threads), transport=transport, open_files=open_files
        )
        loop = asyncio.get_running_loop()

        def on_signal(number: signal.Signals) -> None:
            # a second signal has its default effect: it ends the process
            loop.remove_signal_handler(number)
            machine.stop.set()

        numbers = stop_signals()
        for number in numbers:
            loop.add_signal_handler(number, on_signal, number)
        if reloads:
            # under nohup, too: a terminal that closes makes it look at its configuration, no more
            loop.add_signal_handler(signal.SIGHUP, machine.hangup.set)
        release_signals({*numbers, signal.SIGHUP})
        try:
            return await program(machine)
        finally:
            machine.executor.close()

    return asyncio.run(run_until_complete())
