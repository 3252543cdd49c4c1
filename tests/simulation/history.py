"""Runs one plan from its first step to the verdict, in virtual time."""

import asyncio
import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from logdrive.services.pravega.server.streams.watermarks import EVERY_SECONDS as MARKS_EVERY_SECONDS
from logdrive.store.retention import EVERY_SECONDS
from logdrive.store.verify.verify import verify
from tests.simulation.hosts.process import watched
from tests.simulation.hosts.programs import STORE
from tests.simulation.judging.arrivals import NotAsWrittenError
from tests.simulation.judging.holdings import (
    differing_shares,
    judge_disk,
    judge_handles,
    judge_last_handles,
)
from tests.simulation.judging.oracle import judge
from tests.simulation.judging.retaining import CutWronglyError
from tests.simulation.judging.watermarks import judge_watermarks, marked, overdue
from tests.simulation.peers.reader import (
    CutTooFarError,
    StoredTwiceError,
    TakenBackError,
    follow,
    now_ms,
)
from tests.simulation.peers.tables import entries_of, judge_table
from tests.simulation.peers.transactions import committed, judge_transactions
from tests.simulation.plan import Plan
from tests.simulation.promises import BrokenPromise
from tests.simulation.steps import Steps
from tests.simulation.trace import Trace, recorded
from tests.support.virtual_time import EPOCH_MS, DeadlockError, VirtualTimeLoop

REST_SECONDS = 400.0
"""Limit on the time from the last fault until everything has arrived.

Longer than the longest backoff and time limit on the way.
"""
_QUIET_LOOKS = 8  # looks in a row at which all is settled: then it is at rest
_LOOK_SECONDS = 0.5  # between two looks
_DEAF = "it does not read what it is told"
"""Part of the receiver's log message when it disconnects a peer that does not read."""
_END_SECONDS = 12.0  # an agent may take so long to report removed files as ended
_FOLLOW_TRIES = 20  # limit on the attempts to read all stores
_FREEING_LOOKS = 20  # looks at a store that has removed no log file since the one before, at most
_PASS_SECONDS = 2.0  # longer than a pass of retention
_RETENTION_TURNS = 7  # limit on the turns of retention that are waited for
_MARK_TURNS = 15
"""Limit on the turns of watermarks: one for each of three writers, and waits for the others."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a history ended."""

    plan: Plan
    broken: BrokenPromise | None  # None if every promise held
    trace: Trace
    digest: str  # hash of the trace and of every stored byte
    events: int  # delivered
    seconds: float  # of virtual time


def play(plan: Plan) -> Outcome:
    """Play *plan* and judge it. Raises what is a mistake of the simulator's own."""
    unheard: list[str] = []
    with _no_collector():
        outcome = _played(plan, unheard)
        gc.collect()  # a failed task whose result was never read reports it when it is freed
    if unheard and outcome.broken is None:
        broken = BrokenPromise("no failure goes unheard", unheard[0])
        outcome.trace.add("judge", str(broken))
        outcome = replace(outcome, broken=broken)
    return outcome


def _played(plan: Plan, unheard: list[str]) -> Outcome:
    loop = VirtualTimeLoop()
    loop.set_exception_handler(lambda _, context: unheard.append(_in_words(context)))
    trace = Trace(loop.time)
    with recorded(trace), asyncio.Runner(loop_factory=lambda: loop) as runner:
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
        return Outcome(plan, broken, trace, world.digest(), world.tables.events, loop.time())


def _in_words(context: dict[str, Any]) -> str:
    """Return the event loop's report of an exception that was not caught."""
    whose = context.get("task") or context.get("future")
    name = f" ({whose.get_name()})" if isinstance(whose, asyncio.Task) else ""
    return f"{context['message']}{name}: {context.get('exception')!r}"


@cache
def _freeze_modules() -> None:
    """Exempt all modules from garbage collection, which then costs less before each history."""
    gc.freeze()


@contextmanager
def _no_collector() -> Iterator[None]:
    """Disable the garbage collector: its times would depend on the histories played before."""
    gc.collect()
    _freeze_modules()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class World(Steps):
    """One history from its first step to the verdict."""

    async def run(self) -> None:
        """Play all steps, wait until all is at rest, and judge. Raises `BrokenPromise`."""
        async with self.alive():
            await self._play()
            await self.conclude()

    async def conclude(self) -> None:
        """Wait until all is at rest, and judge. Raises `BrokenPromise`."""
        try:
            # at rest: what programs hold, and what retention does once all was read
            await self._rest()
            self._judge_cut_off()
            await self._read_all()
            self._weigh_at_rest()
            await self._judge_shares()
            await self._retain()
            if self.tickers:
                await self._read_marks()
            judge_handles(self.agents, self.processes.values())

            # after a power cut: whatever was shown before must still be there
            if not self.plan.faulty_iggy:
                await self._lose_power()
            await self._read_all(again=True)
            for store in self.plan.stores:  # now that a start has come since the last full disk
                await self._freed(store)
            self._look()

            # everything that was written and acknowledged, against everything that was read
            judge(
                self.agents,
                self.beats,
                self.liars,
                self.tables,
                stores=len(self.plan.stores),
            )
            if self.users:
                judge_table(self.users, await entries_of(self.network, self.plan.stores[0]))
            if self.writers:
                judge_transactions(self.writers, await committed(self.network, self.plan.stores[0]))
            if self.tickers:
                await self._mark()
            await self._finish()
        except TakenBackError as error:
            raise BrokenPromise("durable is durable", str(error)) from error
        except StoredTwiceError as error:
            raise BrokenPromise("a batch is stored once", str(error)) from error
        except CutTooFarError as error:
            raise BrokenPromise("retention cuts only what was read", str(error)) from error
        except NotAsWrittenError as error:
            raise BrokenPromise("headers and rows agree", str(error)) from error

    async def _rest(self) -> None:
        """End all faults, write last lines, and wait until everything was acknowledged.

        Raises `BrokenPromise` if that takes too long.
        """
        await asyncio.gather(*self._later)
        self.trace.add("step", "calm: nothing more goes wrong")
        self._calm = self.trace.lines[-1]
        for process in self.processes.values():
            process.calm()
        for client in (*(agent.name for agent in self.plan.agents), *self.plan.receivers):
            for server in (*self.plan.receivers, *self.plan.stores):
                self.network.heal(client, server)

        # every program starts again
        loop = asyncio.get_running_loop()
        deadline = loop.time() + REST_SECONDS
        while down := [name for name, process in self.processes.items() if not process.running]:
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()
            if loop.time() > deadline:
                raise BrokenPromise("everything arrives", f"{', '.join(down)} can't be started")

        # every line becomes whole and is acknowledged
        for agent in self.agents:
            agent.applications.last_lines()
        await asyncio.sleep(_END_SECONDS)
        quiet = 0
        while quiet < _QUIET_LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()
            settled = all(agent.settled for agent in self.agents) and self._clients_settled()
            quiet = quiet + 1 if settled else 0
            if loop.time() > deadline:
                raise BrokenPromise(
                    "everything arrives",
                    f"not at rest {REST_SECONDS:g} s after the last fault: {self._unsettled()}",
                )

    async def _judge_shares(self) -> None:
        """Require that receivers count the sources that agents have registered.

        A source that moves to a connection that has just come back is counted twice for a moment.
        """
        for _ in range(_QUIET_LOOKS):
            if not differing_shares(self.plan, self.agents, self.receivers):
                return
            await asyncio.sleep(_LOOK_SECONDS)
        if what := differing_shares(self.plan, self.agents, self.receivers):
            raise BrokenPromise("memory is given back", what)

    def _judge_cut_off(self) -> None:
        """Require that receivers have disconnected no peer for not reading since all is calm."""
        calm = self.trace.lines.index(self._calm)
        for _, receiver, what in self.trace.lines[calm:]:
            if _DEAF in what:
                raise BrokenPromise("who reads is not cut off", f"{receiver}: {what}")

    async def _read_all(self, *, again: bool = False) -> None:
        """Read all stores to their ends, with *again* from the start."""
        for _ in range(_FOLLOW_TRIES):
            away = await follow(self.network, self.plan, self.tables, again=again)
            if not away:
                return
            await asyncio.sleep(_LOOK_SECONDS)
        raise BrokenPromise("everything arrives", f"{', '.join(away)} could not be read")

    async def _retain(self) -> None:
        """Wait for retention and compare what it leaves with what it was asked to leave (S6)."""
        plan = self.plan
        if not plan.retained:
            return

        # what was cut while the reader told its positions, one after the other, is noticed now
        await asyncio.sleep(_PASS_SECONDS)
        await self._read_all()

        # until the limits are kept; by age not before the last batch is old enough
        since, least = now_ms(), plan.kept_ms / 1000 + 2 * EVERY_SECONDS if plan.kept_ms else 0.0
        for turn in range(1, _RETENTION_TURNS + 1):
            await asyncio.sleep(EVERY_SECONDS)
            await self._read_all()
            if turn * EVERY_SECONDS > least and (not plan.kept_bytes or self._is_small()):
                break

        if plan.kept_bytes:
            self._judge_size()
        if len(self.tables.retained.cuts) and self.tables.retained.cuts[-1].at > since:
            await asyncio.sleep(EVERY_SECONDS)  # what was to be cut together is cut
            await self._read_all()
        self._judge_cuts(since)

    def _is_small(self) -> bool:
        return all(self.tables.kept(store) <= self.plan.kept_bytes for store in self.plan.stores)

    def _judge_size(self) -> None:
        most = self.plan.kept_bytes
        for store in self.plan.stores:
            kept = self.tables.kept(store)
            if kept > most:
                raise BrokenPromise(
                    "retention cuts what is too much",
                    f"{store} keeps {kept} bytes of the stream, {most} are wanted",
                )
            if not self.plan.kept_ms and not self.tables.spared(store, most):
                raise BrokenPromise(
                    "retention cuts only what is too much",
                    f"{store} keeps {kept} bytes of the stream, {most} are wanted",
                )

    def _judge_cuts(self, since: int) -> None:
        """Compare what was cut, and in which order, with the ages of batches.

        All was read at *since*. Without a clock that was never set, ages are not known.
        """
        hosts = dict.fromkeys((*self.plan.receivers, *self.plan.stores))
        if any(self.processes[host].clock.wall_ms != EPOCH_MS for host in hosts):
            return
        retained = self.tables.retained
        try:
            if self.plan.kept_ms:
                retained.judge_old(since)
                if not self.plan.kept_bytes:
                    retained.judge_young(self.plan.kept_ms)
            retained.judge_order(since, own=not self.plan.shared)
        except CutWronglyError as error:
            raise BrokenPromise(error.promise, str(error)) from error

    async def _mark(self) -> None:
        """Wait for the watermarks that must come, and judge them."""
        for _ in range(_MARK_TURNS):
            await asyncio.sleep(MARKS_EVERY_SECONDS)
            contents = await self._read_marks()
            if not overdue(self.tickers, self.marks):
                break
        judge_watermarks(self.tickers, self.marks, contents)

    async def _read_marks(self) -> Mapping[int, bytes]:
        """Read all watermarks; return the contents of the segments that they refer to."""
        marks, contents = await marked(self.network, self.plan.stores[0])
        for seen in (self.marks, *(ticker.seen for ticker in self.tickers)):
            if marks[: len(seen)] != seen:
                raise TakenBackError(f"{seen[-1]} was read, and is no longer there")
        self.marks = marks
        return contents

    async def _lose_power(self) -> None:
        """Cut the power of every store, and wait until all run again and are at rest."""
        stores = [self.processes[store] for store in self.plan.stores]
        for store in stores:
            store.kill(power=True)
        deadline = asyncio.get_running_loop().time() + REST_SECONDS
        while not all(store.running for store in stores) or not all(
            agent.settled for agent in self.agents
        ):
            await asyncio.sleep(_LOOK_SECONDS)
            self._look()
            if asyncio.get_running_loop().time() > deadline:
                raise BrokenPromise(
                    "everything arrives",
                    f"not at rest {REST_SECONDS:g} s after the last power cut: {self._unsettled()}",
                )

    async def _freed(self, store: str) -> None:
        """Judge the disk of *store*, which removes its files one after the other, once it removes
        no more.
        """
        disk, left, looks = self.processes[store].disk, 0, 0
        while True:
            try:
                judge_disk(self.plan, self.processes[store], self.tables.kept(store))
                break
            except BrokenPromise:
                before, left = left, len(disk.paths())
                looks = 0 if left < before else looks + 1
                if looks > _FREEING_LOOKS:
                    raise
                await asyncio.sleep(_LOOK_SECONDS)

    async def _finish(self) -> None:
        """Stop all programs as an operator does, and judge how they end."""
        for processes in (self.agents, self.receivers, list(self.processes.values())):
            for process in processes:
                try:
                    await process.finish()
                except TimeoutError:
                    raise BrokenPromise("a stop ends a program", process.name) from None
        self._look()
        judge_last_handles(self.processes.values())
        for store in () if self.plan.faulty_iggy else self.plan.stores:
            damages = verify(self.processes[store].disk, STORE).damages
            if damages := [damage for damage in damages if damage.file not in self.rotten]:
                raise BrokenPromise("a store is as its log says", f"{store}: {damages[0]}")
