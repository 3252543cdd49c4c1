"""`IggyDialog`: how requests are framed on a connection, classic or of R3."""

from collections.abc import Sequence
from typing import Protocol

from logdrive.model.framing import Part
from logdrive.services.iggy.server.sessions import IggySession
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.requests import IggyRequest


class IggyExchange(Protocol):
    """A request that came whole, and how it is answered: exactly one of the methods is called
    for its answer, when its turn has come.
    """

    size: int
    """Bytes that it takes in memory."""

    def decode(self) -> IggyRequest | Sequence[Part]:
        """Return the request, or its answer if there is one already; called once.

        Raises `IggyError`.
        """
        ...

    def accept(self, request: IggyRequest, reply: object) -> Sequence[Part]:
        """Return the frame that answers *request* with *reply*."""
        ...

    def refuse(self, error: IggyError) -> Sequence[Part]:
        """Return the frame that tells *error*."""
        ...


class IggyDialog(Protocol):
    """Cuts what a client sends into requests."""

    session: IggySession
    """Whose requests come next."""

    @property
    def silence_seconds(self) -> float | None:
        """For how long a client may send nothing; None: for ever."""
        ...

    @property
    def buffered(self) -> int:
        """Bytes of a request that has not come whole."""
        ...

    @property
    def over(self) -> bool:
        """Whether the last answer ended the dialog: it is sent, then the connection is closed."""
        ...

    def receive_data(self, data: bytes) -> None:
        """Add what the client sent."""
        ...

    def next_exchange(self) -> IggyExchange | None:
        """Return the next request that came whole, or None. Raises `ProtocolError`."""
        ...

    def end_stale_session(self) -> Sequence[Part]:
        """Return what tells a client that was silent for too long that its session has ended."""
        ...
