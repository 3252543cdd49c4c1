"""Runs a store inside `async with`."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from random import Random

import structlog

from logdrive.errors import StorageError
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.store.engine import Store
from logdrive.store.limits import StoreLimits
from logdrive.store.retention import Policy, Retention, first_matching


class Failure:
    """The error that ended a store early; the event *happened* is set then."""

    def __init__(self) -> None:
        self.happened = asyncio.Event()
        self.error: StorageError | None = None

    def set_error(self, error: StorageError) -> None:
        """Keep the first failure."""
        if self.error is None:
            self.error = error
            self.happened.set()


@contextlib.asynccontextmanager
async def open_store(
    path: str,
    failure: Failure,
    *,
    disk: Disk,
    executor: Executor,
    clock: Clock,
    limits: StoreLimits,
    random: Random | None = None,
    retention: Sequence[Policy] = (),
) -> AsyncIterator[Store]:
    """Open the store in *path* and run it during the context.

    At the end pending changes become durable. *retention* is applied meanwhile. A store that fails
    sets *failure*; the caller should end the context then, which raises that `StorageError`. Raises
    what `Store.open` raises. If the context ends with an exception, the store stops at once, as if
    the process were killed.
    """
    store = await Store.open(
        path, disk=disk, executor=executor, clock=clock, limits=limits, random=random
    )
    log = structlog.get_logger("logdrive.store")
    log.info("store opened", path=store.path, store=str(store.store_id), found=str(store.recovery))
    task = asyncio.create_task(_run(store, failure), name=f"store {path}")
    trimming = asyncio.create_task(_trim(store, retention, clock), name=f"retention {path}")
    try:
        yield store
    except BaseException:
        # at once, without making pending changes durable
        trimming.cancel()
        task.cancel()
        await asyncio.wait([task, trimming])
        await store.abandon()
        raise

    # retention changes the store: it ends before the store does
    trimming.cancel()
    await asyncio.wait([trimming])
    if not trimming.cancelled():
        trimming.result()
    await store.close()
    await task
    if failure.error is not None:
        raise failure.error


async def _trim(store: Store, policies: Sequence[Policy], clock: Clock) -> None:
    if policies:
        await Retention(store, first_matching(policies), clock).run()


async def _run(store: Store, failure: Failure) -> None:
    try:
        await store.run(asyncio.Event())
    except StorageError as error:
        failure.set_error(error)


async def wait_for_any(*events: asyncio.Event) -> None:
    """Return once one of *events* is set."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
