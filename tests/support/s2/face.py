"""A store's S2 face on loopback, in a thread of this process, for blocking readers.

with S2Face(directory) as face:
    face.port
    face.restart()  # connections are lost; the port and the records stay
"""

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Self

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.net.tcp import SystemTransport
from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.open import open_access
from logdrive.services.numbering.segments import open_numbering
from logdrive.services.s2.server.listen import serve_s2
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog


class S2Face:
    """The store in *directory*, served to S2's clients in the `with` block.

    *auth*: only to users and with tokens that it names.
    """

    def __init__(self, directory: Path, auth: AuthConfig | None = None) -> None:
        self._directory = str(directory)
        self._auth = auth
        self._thread: threading.Thread | None = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self.port = 0

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def restart(self) -> None:
        """Stop serving, and serve again."""
        self._end()
        self._start()

    def _start(self) -> None:
        bound: Future[int] = Future()
        self._loop, self._stop = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, args=(bound,), name="s2-face")
        self._thread.start()
        self.port = bound.result(20)

    def _end(self) -> None:
        assert self._thread is not None, "not started"
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self, bound: "Future[int]") -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._serve(bound))
        except BaseException as error:
            if bound.done():
                raise
            bound.set_exception(error)

    async def _serve(self, bound: "Future[int]") -> None:
        executor = ThreadExecutor("s2-face")
        disk, clock = SystemDisk(), SystemClock()
        host = Host(clock=clock, disk=disk, transport=SystemTransport(), executor=executor)
        store = await Store.open(self._directory, disk=disk, executor=executor, clock=clock)
        running = asyncio.create_task(store.run(asyncio.Event()))
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(executor.close)
            stack.push_async_callback(asyncio.wait, [running])
            stack.push_async_callback(store.close)
            catalog = Catalog(store, clock=clock, random=Random(1))
            address = ("127.0.0.1", self.port)
            access = await stack.enter_async_context(
                open_access(self._auth, disk=disk, clock=clock, random=Random(2))
            )
            users = access.users if access else None
            numbering = await stack.enter_async_context(open_numbering(store, clock=clock))
            serving = serve_s2(catalog, numbering, address, None, host=host, users=users)
            bound.set_result((await stack.enter_async_context(serving))[1])
            await self._stop.wait()
