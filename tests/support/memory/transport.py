"""A network in memory, on the running loop's time: back-pressure, delay, cuts, stalls, silence.

`MemoryNetwork` is the wire, `network.host("name", identity="dns:a")` the `Transport` of one machine
on it. A listener is found under the name of the host that made it, whatever address it bound;
loopback names mean the own host. Nothing here reads a clock or starts a thread, so a virtual-time
loop drives it, and with a seeded `random.Random` every split and every delay repeats.

TLS is simulated without its bytes. A client without a certificate that the server asks for, or a
plain client at a TLS port, is refused as by the real transport. The dialect is the first of the
server's list that the client offers.
"""

import asyncio
import random as random_module
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass

from logdrive.errors import ConfigError, Mistake, TransientError
from logdrive.host.transport import Accept, ClientTls, ListenerLimits, Peer, ServerTls
from logdrive.model.framing import Part
from tests.support.memory.pipe import Pipe

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_FIRST_FREE_PORT = 40_000
_SYN_SECONDS = 130
"""Time after which a system gives up to connect to a host that does not answer."""


class MemoryStream:
    """One end of a connection in memory; see `Connection` for what a test may do to it."""

    def __init__(
        self, connection: "Connection", incoming: Pipe, outgoing: Pipe, peer: Peer
    ) -> None:
        self.connection = connection
        self.peer = peer
        self._incoming, self._outgoing = incoming, outgoing

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        return await self._incoming.get()

    async def write(self, parts: Sequence[Part]) -> None:
        """Return once the connection's buffer has room for all *parts*."""
        await self._outgoing.put(parts)

    async def end_writing(self) -> None:
        """Close one direction only: the peer reads b"", and may go on writing."""
        self._outgoing.end()

    def refuse_more(self) -> None:
        """Do nothing: it is a network's connection."""

    async def close(self) -> None:
        """End the connection once all that was written has arrived.

        The peer then reads b"", and its writes fail.
        """
        self._outgoing.end()
        self._incoming.leave()

    def abort(self) -> None:
        """Reset: the peer reads what has arrived, then `TransientError`; a write that waits fails,
        too.
        """
        self._outgoing.fail("connection reset by the peer")
        self._outgoing.refuse_writes("the connection was closed on this side")
        self._incoming.leave()


class Connection:
    """Both directions between two hosts, for a test to harm. *client* and *server* are its ends."""

    def __init__(
        self,
        network: "MemoryNetwork",
        client: "MemoryHost",
        server: "MemoryHost",
        port: int,
        peers: tuple[Peer, Peer],
    ) -> None:
        self.hosts = (client.name, server.name)
        self.port = port
        link = network.link(client.name, server.name)
        towards, back = (
            Pipe(link, network.random, server.name),
            Pipe(link, network.random, client.name),
        )
        seen_by_client, seen_by_server = peers
        self.client = MemoryStream(self, back, towards, seen_by_client)
        self.server = MemoryStream(self, towards, back, seen_by_server)
        self._pipes = (towards, back)
        self._lost = False

    @property
    def swallowed(self) -> bool:
        """True if bytes have vanished in silence, so that one end waits for ever."""
        return any(pipe.swallowed for pipe in self._pipes)

    @property
    def silent(self) -> bool:
        """Whether an end waits for ever, as no kernel does whose keepalives are not answered."""
        return self.swallowed or self._lost

    @property
    def alive(self) -> bool:
        """Whether anything can still travel in either direction."""
        return not all(pipe.over for pipe in self._pipes)

    @property
    def half_open(self) -> bool:
        """Whether one direction is over, and the other end may not know."""
        return self.alive and any(pipe.over for pipe in self._pipes)

    def cut(self) -> None:
        """Break it: what is on the way is lost, both ends see `TransientError` after what had
        arrived.
        """
        for pipe in self._pipes:
            pipe.fail("connection reset by the peer")
            pipe.refuse_writes("connection reset by the peer")

    def stall(self) -> None:
        """Let nothing arrive any more, in silence, until `resume`."""
        for pipe in self._pipes:
            pipe.stall()

    def resume(self) -> None:
        """Deliver what waited, in order."""
        for pipe in self._pipes:
            pipe.resume()

    def end_writing(self, host: str) -> None:
        """Let the end at *host* say that it writes no more, as a middlebox may in its name; the
        other direction stays.
        """
        (self._pipes[0] if host == self.hosts[0] else self._pipes[1]).end()

    def lose(self, host: str) -> None:
        """End the connection for *host* alone; the other end waits (a half-open connection)."""
        self._lost = True
        towards, back = self._pipes
        incoming, outgoing = (back, towards) if host == self.hosts[0] else (towards, back)
        self.stall()
        incoming.fail("the host is gone")
        outgoing.refuse_writes("the host is gone")


@dataclass(slots=True)
class Link:
    """The conditions between two hosts, for all of their connections."""

    delay: float = 0.0  # seconds one way
    jitter: float = 0.0  # limit on further seconds, drawn at random
    capacity: int = 256 * 1024  # bytes that fit into one direction of a connection
    up: bool = True  # False: bytes and new connections wait in silence
    alpn: bool = True  # False: a balancer ends TLS in between, so that no dialect is agreed on
    vanish_to: frozenset[str] = frozenset()  # hosts to which bytes are accepted, and lost


class MemoryListener:
    """A bound port of one host; it owns the tasks of the connections that it took."""

    def __init__(
        self, host: "MemoryHost", port: int, tls: ServerTls | None, accept: Accept
    ) -> None:
        self.address = (host.name, port)
        self.host, self.tls = host, tls
        self._accept = accept
        self._context = copy_context()
        self._tasks: list[asyncio.Task[None]] = []

    def take(self, stream: MemoryStream) -> None:
        """Start the task of a new connection, in the listener's context."""
        name = f"{self.address[0]}:{self.address[1]}"
        task = asyncio.get_running_loop().create_task(
            self._serve(stream), name=name, context=self._context.copy()
        )
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _serve(self, stream: MemoryStream) -> None:
        try:
            await self._accept(stream)
        except TransientError:
            stream.abort()
        except Exception as error:
            stream.abort()
            self.host.network.failures.append(error)
        finally:
            await stream.close()

    async def close(self) -> None:
        """Accept no more connections; those that are open go on."""
        self.host.forget(self)

    def kill(self) -> list[asyncio.Task[None]]:
        """Cancel and return the tasks of all connections, as the end of their process does."""
        self.host.forget(self)
        for task in self._tasks:
            task.cancel()
        return list(self._tasks)


class MemoryHost:
    """The `Transport` of one machine. *identity* is what its certificate says (rule D6)."""

    def __init__(self, network: "MemoryNetwork", name: str, identity: str) -> None:
        self.network, self.name, self.identity = network, name, identity
        self.listeners: dict[int, MemoryListener] = {}
        # dialects that its programs neither offer nor choose: they are of an older version
        self.unknown: frozenset[str] = frozenset()
        self._made: list[MemoryListener] = []

    async def connect(self, host: str, port: int, tls: ClientTls | None) -> MemoryStream:
        """Return a stream to the listener at (*host*, *port*), one round trip later."""
        server = self.name if host in _LOOPBACK else self.network.resolve(host)
        link = self.network.link(self.name, server)
        await asyncio.sleep(2 * link.delay)
        where = f"{host}:{port}"
        await _through(link, where)
        if not link.up:
            raise TransientError(f"{where}: connection timed out")
        target = self.network.hosts.get(server)
        listener = target.listeners.get(port) if target is not None else None
        if target is None or listener is None:
            raise TransientError(f"{where}: connection refused")
        unknown = self.unknown | target.unknown
        alpn = _agreed(where, tls, listener.tls, unknown) if link.alpn else None
        secure = tls is not None
        brought = (
            tls is not None
            and tls.cert is not None
            and listener.tls is not None
            and listener.tls.ca is not None
        )
        seen_by_client = Peer(where, target.identity if secure else "", alpn, secure)
        seen_by_server = Peer(
            f"{self.name}:{self.network.next_port()}",
            self.identity if brought else "",
            alpn,
            secure,
        )
        connection = Connection(self.network, self, target, port, (seen_by_client, seen_by_server))
        self.network.add(connection)
        listener.take(connection.server)
        return connection.client

    async def listen(
        self,
        host: str,
        port: int,
        tls: ServerTls | None,
        accept: Accept,
        limits: ListenerLimits | None = None,
    ) -> MemoryListener:
        """Take connections at *port* of this host; 0 asks for a free one."""
        port = port or self.network.next_port()
        if port in self.listeners:
            raise ConfigError(
                f"{host}:{port}",
                [
                    Mistake(
                        "address", f"{host}:{port}", "the address is in use: stop the other program"
                    )
                ],
            )
        listener = MemoryListener(self, port, tls, accept)
        self.listeners[port] = listener
        self._made.append(listener)
        return listener

    def forget(self, listener: MemoryListener) -> None:
        """Free the port of *listener*."""
        port = listener.address[1]
        if self.listeners.get(port) is listener:
            del self.listeners[port]

    def kill_tasks(self) -> list[asyncio.Task[None]]:
        """Cancel the tasks of every connection this host has accepted; returns them."""
        killed = [task for listener in self._made for task in listener.kill()]
        self._made.clear()
        return killed


async def _through(link: Link, where: str) -> None:
    """Return once what is written to either end arrives there.

    Raises `TransientError` where a system gives up.
    """
    tries = 0
    while link.vanish_to:
        if tries == _SYN_SECONDS:
            raise TransientError(f"{where}: connection timed out")
        tries += 1
        await asyncio.sleep(1.0)


def _agreed(
    where: str, client: ClientTls | None, server: ServerTls | None, unknown: frozenset[str]
) -> str | None:
    """Return the dialect that both would agree on, none that is *unknown* to one of them.

    Raises `TransientError` where their handshake would fail.
    """
    if (client is None) != (server is None):
        raise TransientError(
            f"{where}: "
            + ("speaks no TLS" if server is None else "closed the connection: it wants TLS")
        )
    if client is None or server is None:
        return None
    if server.ca is not None and client.cert is None:
        raise TransientError(f"{where}: refused this client: it asks for a certificate")
    common = (name for name in server.alpn if name in client.alpn and name not in unknown)
    return next(common, None)


class MemoryNetwork:
    """All hosts, links and connections of one test.

    *random* splits reads and spreads delays; without it nothing varies.
    """

    def __init__(self, random: random_module.Random | None = None) -> None:
        self.random = random
        # returns the host behind a name, at every connection; a test may put a balancer here
        self.resolve: Callable[[str], str] = lambda host: host
        self.hosts: dict[str, MemoryHost] = {}
        # exceptions of accepted connections besides `TransientError`, in order
        self.failures: list[Exception] = []
        self._links: dict[tuple[str, str], Link] = {}
        self._connections: list[Connection] = []
        self._port = _FIRST_FREE_PORT

    def host(self, name: str, identity: str = "") -> MemoryHost:
        """Return the transport of the host *name*; its next connections have *identity*."""
        host = self.hosts.setdefault(name, MemoryHost(self, name, identity))
        host.identity = identity or host.identity
        return host

    def link(self, a: str, b: str) -> Link:
        """Return the link between two hosts; changes hold for open connections, too."""
        return self._links.setdefault((min(a, b), max(a, b)), Link())

    def next_port(self) -> int:
        """Return a port that is not in use."""
        self._port += 1
        return self._port

    def add(self, connection: Connection) -> None:
        """Keep *connection* for as long as it lives."""
        self._connections = [kept for kept in self._connections if kept.alive]
        self._connections.append(connection)

    def connections(self, *hosts: str) -> list[Connection]:
        """Return the living connections that touch all of *hosts*, oldest first."""
        return [c for c in self._connections if c.alive and all(host in c.hosts for host in hosts)]

    def cut(self, *hosts: str) -> int:
        """Cut the living connections that touch all of *hosts*; returns how many."""
        connections = self.connections(*hosts)
        for connection in connections:
            connection.cut()
        return len(connections)

    def free_ports(self, host: str) -> None:
        """Let nobody reach *host* until it listens again: the process there has ended."""
        if host in self.hosts:
            self.hosts[host].listeners.clear()

    def partition(self, a: str, b: str) -> None:
        """Let nothing through between two hosts, in silence; new connections time out."""
        self.link(a, b).up = False
        for connection in self.connections(a, b):
            connection.stall()

    def swallow(self, a: str, b: str, to: frozenset[str]) -> None:
        """Lose all bytes between two hosts that go to those of *to*, until `give_back`."""
        self.link(a, b).vanish_to = to

    def give_back(self, a: str, b: str, *, reset: bool) -> None:
        """End what `swallow` began, for new connections.

        Connections that lost bytes are reset now, or stay silent for ever.
        """
        self.link(a, b).vanish_to = frozenset()
        for connection in self.connections(a, b):
            if reset and connection.swallowed:
                connection.cut()

    def heal(self, a: str, b: str) -> None:
        """End a partition; what waited arrives."""
        self.link(a, b).up = True
        for connection in self.connections(a, b):
            connection.resume()

    async def crash(self, host: str) -> None:
        """End the process on *host* as SIGKILL does: connections are reset, tasks are cancelled."""
        self.cut(host)
        await self._end_tasks(host)

    async def vanish(self, host: str) -> None:
        """Take *host* from the network as a power cut does: its peers get no reset."""
        for connection in self.connections(host):
            connection.lose(host)
        await self._end_tasks(host)

    async def _end_tasks(self, host: str) -> None:
        if host in self.hosts:
            await asyncio.gather(*self.hosts[host].kill_tasks(), return_exceptions=True)

    async def close(self) -> None:
        """End everything; raises what accepted connections had raised."""
        for name in self.hosts:
            await self.crash(name)
        if self.failures:
            raise ExceptionGroup("accepted connections failed", self.failures)
