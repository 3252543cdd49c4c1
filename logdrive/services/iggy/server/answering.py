"""`IggyAnswering`: what a connection asks to have its requests answered."""

import asyncio
from typing import Protocol

from logdrive.services.iggy.server.sessions import IggySession
from logdrive.wire.iggy.requests import IggyRequest, SendMessages


class IggyAnswering(Protocol):
    """Answers requests in terms that no revision differs in.

    Both methods raise `IggyError`, which the client is told by its code, and what the store raises.
    They are called in the order of a connection's requests, each after the one before returned.
    """

    async def handle(self, session: IggySession, request: IggyRequest) -> object:
        """Return the reply to any request but a send: as the docstring of its class says.

        A login sets the session's user, a logout takes it. Whether the session may make the request
        is checked here, too.
        """
        ...

    async def begin_send(
        self, session: IggySession, request: SendMessages
    ) -> "asyncio.Future[object]":
        """Check a send and submit it to the store; return what is done once it is durable.

        Its result is a tuple of `SendConfirmation`; its failure is an `IggyError` where nothing
        was stored, and any other `LogdriveError` where that is not known.

        So a connection has several sends under way, and they become durable in their order.
        *request* has views of the received bytes, which are not used after this method returned.
        """
        ...

    def admit_nameless(self, session: IggySession) -> None:
        """Log in a client of R0, which has no logins, where the face asks for none."""
        ...
