"""Protocols for connections: ordered bytes both ways.

`logdrive.net.tcp` implements them; tests join two ends in memory. TLS is below these protocols: a
`ByteStream` has only the peer's identity and the ALPN name that was agreed on.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from logdrive.model.framing import Part


@dataclass(frozen=True, slots=True)
class Peer:
    """The other end of a connection."""

    address: str  # host:port
    identity: str = ""  # client identity (rule D6); "" without a certificate
    alpn: str | None = None  # protocol that TLS agreed on
    secure: bool = False  # True with TLS


@dataclass(frozen=True, slots=True)
class ClientTls:
    """TLS settings of a client; the fields are those of `ClientTlsConfig`."""

    ca: str  # file of the CA that signs the server's certificate
    cert: str | None = None  # file of our certificate, if the server asks for one
    key: str | None = None  # file of its private key
    server_name: str | None = None  # to verify, if it is not the host that is connected to
    alpn: tuple[str, ...] = ()  # protocols to offer, the best first


@dataclass(frozen=True, slots=True)
class ServerTls:
    """TLS settings of a server; without *ca* it asks for no client certificate."""

    cert: str  # file of our certificate, then those that signed it
    key: str  # file of its private key
    ca: str | None = None  # file of the CA that signs the clients' certificates
    alpn: tuple[str, ...] = ()  # protocols to choose from, the best first


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """Limits of one listener of its own, so that its peers take nothing from the others."""

    connections: int  # that are open at a time, those in a TLS handshake included
    reads_bytes: int  # what the reads of all of them may bring in one round of the event loop


class ByteStream(Protocol):
    """One connection. At most one task reads, and one writes, at a time.

    All methods raise `TransientError` if the connection is lost.
    """

    peer: Peer
    """The other end, as the handshake found it."""

    async def read(self) -> bytes:
        """Return the next bytes, at most 256 KiB; b"" once the peer has ended its side."""
        ...

    async def write(self, parts: Sequence[Part]) -> None:
        """Return once the transport has taken all *parts*; waits while the peer does not read."""
        ...

    def refuse_more(self) -> None:
        """Let what the peer writes from now on fail, over a Unix socket; `read` returns what came.

        Over a network that can't be had: the peer may have sent more already.
        """
        ...

    async def close(self) -> None:
        """Send what was written, end TLS, and close, within a short time; may be called twice."""
        ...

    def abort(self) -> None:
        """Reset the connection; may be called twice."""
        ...


class Listener(Protocol):
    """A bound socket."""

    address: tuple[str, int]  # host and port; the real port if 0 was asked for

    async def close(self) -> None:
        """Accept no more connections; open ones stay."""
        ...


Accept = Callable[[ByteStream], Awaitable[None]]


class Transport(Protocol):
    """Makes connections, over plain TCP with *tls* None."""

    async def connect(self, host: str, port: int, tls: ClientTls | None) -> ByteStream:
        """Return a connection, after the TLS handshake.

        Raises `TransientError` with the reason, and `ConfigError` for certificates that can't be
        used.
        """
        ...

    async def listen(
        self,
        host: str,
        port: int,
        tls: ServerTls | None,
        accept: Accept,
        limits: ListenerLimits | None = None,
    ) -> Listener:
        """Listen, and run *accept* in a task for each connection, after the TLS handshake.

        The stream is closed when *accept* returns. Without *limits* those of the transport hold,
        for all such listeners together. Raises `ConfigError` if the address can't be bound, or
        certificates can't be used.
        """
        ...
