"""From the first client to the last: what the faces of S2 and of Iggy do while they are served."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from typing import Any

from logdrive.host.transport import Listener


@contextlib.asynccontextmanager
async def serve_until_left(
    listener: Listener,
    upkeep: Mapping[str, Coroutine[Any, Any, None]],
    *,
    drain: Callable[[], Awaitable[None]],
    abort: Callable[[], Awaitable[None]],
    close: Callable[[], Awaitable[None]],
) -> AsyncIterator[None]:
    """Run *upkeep*, each as a task of its name, while the context is open; then end the face.

    *listener* is closed first. Then *drain* answers what is under way and ends all connections;
    the tasks are cancelled; *close* closes what the connections used. After an exception *abort*
    drops all connections in place of *drain*, and *close* is left out.
    """
    tasks = [asyncio.create_task(each, name=name) for name, each in upkeep.items()]
    in_order = False
    try:
        yield
        in_order = True
    finally:
        await listener.close()
        if in_order:
            await drain()
        else:  # something failed, or this is the end of a process that was killed
            await abort()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if in_order:
            await close()
