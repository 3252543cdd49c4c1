"""Runs an asyncio program with the real clock, disk, network and threads, until it ends or a signal
asks it to.
"""

import asyncio
import gc
import resource
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Any, TypeVar

from logdrive.host.clock import Clock, SystemClock
from logdrive.host.disk import Disk, SystemDisk
from logdrive.host.executor import Executor, ThreadExecutor
from logdrive.host.heap import keep_freed_memory
from logdrive.net.stream import Transport
from logdrive.net.tcp import SystemTransport

T = TypeVar("T")

PACKING_THREADS = 2
"""An agent's: one packs a window while the other begins the next."""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The real parts that programs take as arguments, and the event that asks them to end."""

    executor: Executor
    clock: Clock = field(default_factory=SystemClock)
    disk: Disk = field(default_factory=SystemDisk)
    transport: Transport = field(default_factory=SystemTransport)
    random: Random = field(default_factory=SystemRandom)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    open_files: int = 1024
    """How many files and connections the process may have open."""


def lift_limit_of_open_files() -> int:
    """Let the process have as many files open as it may at all, and return how many.

    The usual limit is low for old programs' sake.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return soft
    return hard


def ending_signals() -> list[signal.Signals]:
    """Return the signals that ask a program to end; SIGHUP is one unless it is ignored, as under
    nohup.
    """
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hangs_up else [])]


def run(
    program: Callable[[Machine], Coroutine[Any, Any, T]],
    *,
    threads: int = 1,
    max_connections: int = 10_000,
) -> T:
    """Return what *program* returns.

    `ending_signals` set `stop` once; a second one ends the process as usual.
    """

    keep_freed_memory()
    open_files = lift_limit_of_open_files()
    # modules stay: no collection, the one at the end included, has to look through them (0.1 s
    # each)
    gc.freeze()

    async def whole() -> T:
        transport = SystemTransport(max_connections=max_connections)
        machine = Machine(
            executor=ThreadExecutor("logdrive", threads), transport=transport, open_files=open_files
        )
        loop = asyncio.get_running_loop()

        def asked(number: signal.Signals) -> None:
            loop.remove_signal_handler(number)
            machine.stop.set()

        for number in ending_signals():
            loop.add_signal_handler(number, asked, number)
        try:
            return await program(machine)
        finally:
            machine.executor.close()

    return asyncio.run(whole())
