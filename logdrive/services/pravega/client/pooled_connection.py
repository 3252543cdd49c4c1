"""One connection of a pool to a segment store: it reconnects whenever it ends.

A connection on which nothing moves is probed with a KeepAlive every 10 s, and closed after 60 s
without an answer: the host at the other end may be gone without a word.
"""

import asyncio
from random import Random
from typing import Final, NoReturn

from logdrive.errors import ConfigError, LogdriveError, TransientError
from logdrive.host.cancel import raise_if_cancelled
from logdrive.host.clock import Clock
from logdrive.host.transport import ByteStream, Transport
from logdrive.net.retry import Backoff, FullJitter, retry_async
from logdrive.services.outage import Outage
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.writers import TokenOf, no_token

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0  # seconds, the ceilings of what is drawn
_GREETING_SECONDS: Final = 10.0  # limit on the wait for the service's Hello
_PROBE_SECONDS: Final = 10.0  # between two KeepAlives on a silent connection
_SILENCE_SECONDS: Final = 60.0  # without any progress, then the connection is closed


class PooledConnection:
    """One connection that is made again whenever it ends.

    *client* is None while there is no connection. When one ends, all appends in flight on it fail.
    """

    def __init__(
        self,
        transport: Transport,
        target: Target,
        outage: Outage,
        *,
        clock: Clock,
        random: Random,
        token: TokenOf = no_token,
    ) -> None:
        self._transport = transport
        self._target = target
        self._outage = outage
        self._clock = clock
        # Returns the token for a segment.
        self._token = token
        # Waits between two connections.
        self._backoff = Backoff(FullJitter(_FIRST_WAIT, _LONGEST_WAIT, random))
        # Set and cleared when there is a connection, or can be none.
        self._changed = asyncio.Event()
        # Why there can be no connection: certificates that can't be loaded.
        self._unusable: ConfigError | None = None
        self.client: SegmentClient | None = None

    async def wait_connected(self) -> SegmentClient:
        """Wait for a connection and return its client.

        Raises `ConfigError` if certificates can't be loaded.
        """
        while self.client is None:
            if self._unusable is not None:
                raise ConfigError(self._unusable.file, self._unusable.mistakes)
            await self._changed.wait()
        return self.client

    def report_success(self) -> None:
        """Record that the service has stored something: the next wait is the shortest again."""
        self._backoff.reset()
        self._outage.report_success()

    async def run(self) -> None:
        """Connect, again and again, until cancelled."""
        for_ever = retry_async(
            LogdriveError,
            sleep=self._clock.sleep,
            wait=self._backoff,
            on_failure=self._on_failure,
        )
        await for_ever(self._run_connection)

    def _on_failure(self, error: BaseException, _: float) -> None:
        # Callers of `wait_connected` get the error of certificates that can't be loaded.
        self._unusable = error if isinstance(error, ConfigError) else None
        if self._unusable is not None:
            self._wake_waiters()
        self._outage.report_failure(str(error))

    async def _run_connection(self) -> NoReturn:
        """Make one connection and run it. Raises why it ended, or could not be made."""
        stream = await self._transport.connect(
            self._target.host, self._target.port, self._target.tls
        )
        failure: LogdriveError = TransientError(f"{stream.peer.address}: closed here")
        try:
            async with asyncio.TaskGroup() as tasks:
                client = SegmentClient(stream, token=self._token)
                tasks.create_task(self._watch(client, stream), name="pravega-connection-watch")
                try:
                    # Raised, not returned: the task group must end the watching task at once (see
                    # `raise_if_cancelled`).
                    raise await client.run()
                finally:
                    self.client = None
        except* LogdriveError as failures:
            if isinstance(failures.exceptions[0], LogdriveError):
                failure = failures.exceptions[0]
        finally:
            await stream.close()
        raise_if_cancelled()
        try:
            raise failure
        finally:
            del failure  # it leads to this frame, and to what was being written

    async def _watch(self, client: SegmentClient, stream: ByteStream) -> None:
        """Publish *client* once the service has greeted it, then watch for progress.

        Raises `TransientError` if the greeting does not come, or nothing moves for 60 s.
        """
        try:
            async with asyncio.timeout(_GREETING_SECONDS):
                await client.wait_hello()
        except TimeoutError as error:
            raise TransientError(
                f"{stream.peer.address}: no greeting within {_GREETING_SECONDS:g} s"
            ) from error
        self.client = client
        self._wake_waiters()

        # progress when it was last seen to move, and seconds of silence since
        moved, silence = client.progress, 0.0
        while True:
            await self._clock.sleep(_PROBE_SECONDS)
            if client.progress != moved:
                moved, silence = client.progress, 0.0
                continue
            silence += _PROBE_SECONDS
            if silence >= _SILENCE_SECONDS:
                raise TransientError(f"{stream.peer.address}: nothing was heard for {silence:g} s")
            client.send_keep_alive()

    def _wake_waiters(self) -> None:
        """Wake all callers of `wait_connected`."""
        self._changed.set()
        self._changed.clear()
