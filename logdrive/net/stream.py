"""Connections as an argument: ordered bytes both ways, whatever carries them.

The real one is `logdrive.net.tcp`; tests join two ends in memory. TLS ends below this line: a
`ByteStream` tells only who the peer is and which dialect was agreed on.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from logdrive.model.framing import Part


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end. *identity* is rule D6's, "" for a peer without a certificate."""

    address: str
    identity: str = ""
    alpn: str | None = None
    secure: bool = False


@dataclass(frozen=True, slots=True)
class ClientTls:
    """What a client brings and demands.

    Paths are PEM files; *server_name* is verified in the server's certificate.
    """

    ca: str
    cert: str | None = None
    key: str | None = None
    server_name: str | None = None
    alpn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ServerTls:
    """What a server brings and demands; without *ca* it asks for no client certificate."""

    cert: str
    key: str
    ca: str | None = None
    alpn: tuple[str, ...] = ()


class ByteStream(Protocol):
    """One connection.

    Broken connections raise `TransientError`; one task reads and one writes at a time.
    """

    peer: Peer

    async def read(self) -> bytes:
        """Return the next bytes, at most 256 KiB, b"" at the end."""
        ...

    async def write(self, parts: Sequence[Part]) -> None:
        """Return once the transport took all *parts*; it waits while the peer does not read."""
        ...

    async def close(self) -> None:
        """Say goodbye and close, within a short time; safe to call twice."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class Listener(Protocol):
    """A bound socket. *address* is (host, port), the real port where 0 was asked for."""

    address: tuple[str, int]

    async def close(self) -> None:
        """Take no more connections; those that stand go on."""
        ...


Accept = Callable[[ByteStream], Awaitable[None]]


class Transport(Protocol):
    """Makes streams.

    With tls None they are plain, which only a configuration that says so may ask for.
    """

    async def connect(self, host: str, port: int, tls: ClientTls | None) -> ByteStream:
        """Return a connected stream, handshake done. Raises `TransientError` with the reason."""
        ...

    async def listen(self, host: str, port: int, tls: ServerTls | None, accept: Accept) -> Listener:
        """Run *accept* as a task of its own for each connection, handshake done.

        Raises `ConfigError` where it can't bind.
        """
        ...
