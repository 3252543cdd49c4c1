"""One of a sink's connections to a streaming service: made anew whenever it ends, and never trusted
to be alive by its silence.
"""

import asyncio
from random import Random
from typing import Final, NoReturn

import structlog

from logdrive.errors import ConfigError, LogdriveError, TransientError
from logdrive.host.cancel import raise_if_cancelled
from logdrive.host.clock import Clock
from logdrive.net.retry import Backoff, FullJitter, retry_async
from logdrive.net.stream import ByteStream, Transport
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.writers import TokenOf, no_token

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0  # seconds, the ceilings of what is drawn
_GREETING_SECONDS: Final = 10.0
_PROBE_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 60.0


class Outage:
    """Whether the service can be appended to: told once when that ends, and once when it is so
    again, whatever is tried in between.
    """

    def __init__(self, service: str) -> None:
        self._log = structlog.get_logger("logdrive.sinks").bind(service=service)
        self.reason: str | None = None

    def began(self, reason: str) -> None:
        """Something failed that only the service can mend."""
        if self.reason is None:
            self._log.warning("the streaming service takes nothing: trying on", reason=reason)
        self.reason = reason

    def over(self) -> None:
        """The service did what it was asked to."""
        if self.reason is not None:
            self.reason = None
            self._log.info("the streaming service answers again")


class PooledConnection:
    """Keeps one connection.

    *client* is None while there is none; what was in flight on one that ended has failed.
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
        self._transport, self._target, self._outage, self._clock = transport, target, outage, clock
        self._token = token
        self._backoff = Backoff(FullJitter(_FIRST_WAIT, _LONGEST_WAIT, random))
        self._changed = asyncio.Event()
        self._unusable: ConfigError | None = None
        self.client: SegmentClient | None = None

    async def up(self) -> SegmentClient:
        """Return the connection, once there is one.

        Raises `ConfigError` where certificates can't be loaded.
        """
        while self.client is None:
            if self._unusable is not None:
                raise ConfigError(self._unusable.file, self._unusable.mistakes)
            await self._changed.wait()
        return self.client

    def proved(self) -> None:
        """Note that the service took something: the next failure is the first again."""
        self._backoff.reset()
        self._outage.over()

    async def run(self) -> None:
        """Connect, again and again, until cancelled."""
        for_ever = retry_async(
            LogdriveError,
            sleep=self._clock.sleep,
            wait=self._backoff,
            on_failure=self._failed,
        )
        await for_ever(self._connection)

    def _failed(self, error: BaseException, _: float) -> None:
        # certificates that can't be loaded: those that wait in `up` are to hear of it
        self._unusable = error if isinstance(error, ConfigError) else None
        if self._unusable is not None:
            self._tell()
        self._outage.began(str(error))

    async def _connection(self) -> NoReturn:
        """Have one connection. Raises why it ended, or could not be made."""
        stream = await self._transport.connect(
            self._target.host, self._target.port, self._target.tls
        )
        failure: LogdriveError = TransientError(f"{stream.peer.address}: closed here")
        try:
            async with asyncio.TaskGroup() as tasks:
                client = SegmentClient(stream, token=self._token)
                tasks.create_task(self._watch(client, stream), name="pravega-lane-watch")
                try:
                    # raised, so that the body ends by it and has not to wait: see
                    # `raise_if_cancelled`
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
        """Hand the connection out once it was greeted; raise `TransientError` when nothing moved on
        it for too long.
        """
        try:
            async with asyncio.timeout(_GREETING_SECONDS):
                await client.greeted()
        except TimeoutError as error:
            raise TransientError(
                f"{stream.peer.address}: no greeting within {_GREETING_SECONDS:g} s"
            ) from error
        self.client = client
        self._tell()
        moved, silence = client.moved, 0.0
        while True:
            await self._clock.sleep(_PROBE_SECONDS)
            if client.moved != moved:
                moved, silence = client.moved, 0.0
                continue
            silence += _PROBE_SECONDS
            if silence >= _SILENCE_SECONDS:
                raise TransientError(f"{stream.peer.address}: nothing was heard for {silence:g} s")
            client.keep_alive()

    def _tell(self) -> None:
        """Wake all that wait in `up`."""
        self._changed.set()
        self._changed.clear()
