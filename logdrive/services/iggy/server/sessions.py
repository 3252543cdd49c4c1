"""Sessions of the Iggy face: its clients, who of them is logged in, and what ends with a session.

One connection has one session at a time. In the classic revisions it has the same until it ends;
in R3 each login begins a new one.
"""

from collections.abc import Callable, Iterator
from random import Random

from logdrive.wire.iggy.replies import ClientTransport
from logdrive.wire.iggy.revision import Revision

_ID_BITS = 32


class IggySession:
    """A client. Only `IggySessions` makes one.

    *client_id* is its number as other clients see it, never 0. *address* is its own "host:port".
    """

    transport = ClientTransport.TCP

    def __init__(self, client_id: int, address: str, revision: Revision) -> None:
        self.client_id = client_id
        self.address = address
        self.revision = revision
        """The revision that it speaks; before a classic client's login it is a guess."""
        self.user_id: int | None = None
        """Number of the user who is logged in; None before the login, and after a logout."""
        self._endings: dict[Callable[[], None], None] = {}

    def log_in(self, user_id: int) -> None:
        """Note that the user with that number has logged in, in place of any before."""
        if self.user_id is not None and self.user_id != user_id:
            self.log_out()
        self.user_id = user_id

    def log_out(self) -> None:
        """End what the login allowed, such as memberships; harmless without a login."""
        self.user_id = None
        endings, self._endings = self._endings, {}
        for end in endings:
            end()

    def at_end(self, end: Callable[[], None]) -> None:
        """Call *end* once: at the logout, or when the connection has ended."""
        self._endings[end] = None

    def not_at_end(self, end: Callable[[], None]) -> None:
        """Don't call *end*, which need not be known."""
        self._endings.pop(end, None)


class IggySessions:
    """All sessions of one face. *random* draws their numbers.

    Numbers are not counted from 1: a client that lost its connection asks whether its old number
    is gone, and after a restart of the server another client might have it.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._sessions: dict[int, IggySession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[IggySession]:
        return iter(list(self._sessions.values()))

    def find(self, client_id: int) -> IggySession | None:
        """Return the session with that number."""
        return self._sessions.get(client_id)

    def open_session(self, address: str, revision: Revision) -> IggySession:
        """Return a new session of the client at *address*; pass it to `close_session` later."""
        client_id = 0
        while client_id == 0 or client_id in self._sessions:
            client_id = self._random.getrandbits(_ID_BITS)
        session = self._sessions[client_id] = IggySession(client_id, address, revision)
        return session

    def close_session(self, session: IggySession) -> None:
        """End *session*, whose connection has ended; may be called twice."""
        self._sessions.pop(session.client_id, None)
        session.log_out()

    def log_out_user(self, user_id: int) -> None:
        """Log out all clients of a user, who was deleted or may not log in any more."""
        for session in self:
            if session.user_id == user_id:
                session.log_out()
