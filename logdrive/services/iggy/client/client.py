"""A client of Iggy, of any revision that the service speaks. See docs/protocols/iggy.md.

    async with IggyClient(transport, target) as client:
        topics = await client.request(GetTopics("logs"))

Nothing is tried twice here, but a lost connection is made again at the next request. All methods
raise `TransientError` for what may pass, a lost connection or a refusal (`IggyUnavailableError`),
`IggyError` for a refusal that will be the same next time, and `ConfigError` for certificates that
can't be used.
"""

import asyncio
from random import Random
from types import TracebackType
from typing import TypeVar

from logdrive.errors import TransientError
from logdrive.host.transport import Transport
from logdrive.services.iggy.client.session import REQUEST_SECONDS, IggyClientSession
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.client.telling import open_session
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.requests import IggyRequestFor
from logdrive.wire.iggy.revision import Revision

R = TypeVar("R")


class IggyClient:
    """Requests to the service of *target*, one after the other, and sessions of their own.

    *random* draws the ids of sessions of R3.
    """

    def __init__(
        self,
        transport: Transport,
        target: IggyTarget,
        *,
        random: Random | None = None,
        request_seconds: float = REQUEST_SECONDS,
    ) -> None:
        self._transport = transport
        self._target = target
        self._random = random
        self._seconds = request_seconds
        self._known: Revision | None = None
        self._session: IggyClientSession | None = None
        self._turn = asyncio.Lock()

    async def __aenter__(self) -> "IggyClient":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def where(self) -> str:
        """Host and port of the service, for messages."""
        return self._target.where

    @property
    def revision(self) -> Revision:
        """The revision that the service spoke last; to be asked for after a request."""
        assert self._known is not None, "nothing was requested yet"
        return self._known

    async def request(self, request: IggyRequestFor[R]) -> R:
        """Return the reply to *request*. Retrying is the caller's to judge."""
        async with self._turn:
            if self._session is None:
                self._session = await self.open_session()
            try:
                return await self._session.request(request)
            except IggyError as error:
                if error.reason is Reason.UNAUTHENTICATED:  # the service has forgotten the login
                    self._drop()
                    raise TransientError(f"{self.where}: {error}") from error
                raise
            except BaseException:  # a reply that is not awaited would answer the next request
                self._drop()
                raise

    async def open_session(self) -> IggyClientSession:
        """Return a session of its own; the caller ends it."""
        known, self._known = self._known, None
        session = await open_session(
            self._transport,
            self._target,
            random=self._random,
            request_seconds=self._seconds,
            known=known,
        )
        self._known = session.revision
        return session

    def _drop(self) -> None:
        if self._session is not None:
            self._session.abort()
            self._session = None

    async def close(self) -> None:
        """Close the connection of `request`."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
