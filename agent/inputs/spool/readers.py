"""Readers: each reads one input until it ends or is stopped, and hands over what it read."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from agent.inputs.local.ports import DROPS_MODULUS, ByteInput, DatagramInput, LocalListener
from agent.inputs.spool.channel import SpoolChannel
from agent.inputs.spool.framing import FramedText, Framing
from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.host.transport import Accept, ByteStream
from logdrive.model.units import KIB

_READ_BYTES: Final = 512 * KIB
"""Limit on one read of standard input or a pipe."""
_LAST_SECONDS: Final = 3.0
"""Limit on the time for which connections are read after a stop, however much comes."""
_LAST_SILENCE_SECONDS: Final = 0.1
"""After a stop, a connection on which nothing comes for so long has nothing more in the kernel."""
_WARN_SECONDS: Final = 60.0
"""Seconds between two warnings of connections that are turned away."""


class Reader(Protocol):
    """Reads one input. The agent opens all before it runs any."""

    @property
    def at_end(self) -> bool:
        """Whether the input ended by itself."""
        ...

    async def open(self) -> None:
        """Open or bind what is read. Raises `ConfigError`."""
        ...

    async def run(self) -> None:
        """Read until the input ends, or until `stop`; all that was read is handed over then."""
        ...

    async def reopen(self) -> None:
        """Open the input anew beside the former one, of which the rest is read, too.

        Called while `run` runs, where another stands under its path. Raises `ConfigError`.
        """
        ...

    async def stop(self) -> None:
        """Take no more from writers; let `run` return once it has handed over what waits."""
        ...

    def close(self) -> None:
        """Close what is open, if anything is."""
        ...


class BytesReader:
    """Reads standard input, or a pipe."""

    def __init__(self, open_input: Callable[[], ByteInput], channel: SpoolChannel) -> None:
        self.at_end = False
        self._open_input = open_input
        self._channel = channel
        self._input: ByteInput | None = None
        self._stopped = False

    async def open(self) -> None:
        """Open the input."""
        self._input = self._open_input()

    async def run(self) -> None:
        """Read on only once what was read is durable."""
        while current := self._input:
            try:
                while data := await current.read(_READ_BYTES):
                    await self._channel.append(data, [])
            except TransientError as error:
                self._channel.warn("input can't be read: that is its end", reason=str(error))
            if current is self._input:
                break
            current.close()
        self.at_end = not self._stopped

    async def reopen(self) -> None:
        """Open the pipe anew; what waits in the former one is read first."""
        former, self._input = self._input, self._open_input()
        if former is not None:
            former.end()

    async def stop(self) -> None:
        """Close the input; what was in it is handed over."""
        self._stopped = True
        if self._input is not None:
            self._input.end()

    def close(self) -> None:
        """Close the input."""
        if self._input is not None:
            self._input.close()


class DatagramReader:
    """Reads datagrams: each is a message."""

    at_end: Final = False

    def __init__(
        self, bind: Callable[[], DatagramInput], channel: SpoolChannel, message_bytes: int
    ) -> None:
        self._bind = bind
        self._channel = channel
        self._limit = message_bytes
        self._input: DatagramInput | None = None
        self._dropped_before = 0  # of the socket that was bound last, when it was bound

    async def open(self) -> None:
        """Bind the socket."""
        self._bind_anew()

    async def run(self) -> None:
        """Read datagrams, faster than the disk may take them: those are lost, and counted."""
        while current := self._input:
            await self._read(current)
            if current is self._input:
                break
            current.close()

    async def reopen(self) -> None:
        """Bind anew; what waits in the former socket is read first."""
        former = self._input
        self._bind_anew()
        if former is not None:
            former.end()

    def _bind_anew(self) -> None:
        self._input = self._bind()
        self._dropped_before = self._input.dropped()

    async def _read(self, current: DatagramInput) -> None:
        """Read *current* to its end."""
        dropped_before = self._dropped_before
        while datagrams := await current.receive(self._limit + 1):
            parts, senders = list[bytes](), list[tuple[str, list[int]]]()
            for data, sender in datagrams:
                message, cut = data[: self._limit], len(data) > self._limit
                if not message:
                    continue
                # a newline that the sender wrote is the one that the spool needs
                text = message if message.endswith(b"\n") and not cut else message + b"\n"
                parts.append(text)
                if not senders or senders[-1][0] != sender:
                    senders.append((sender, []))
                senders[-1][1].append(-len(text) if cut else len(text))
            if parts:
                self._channel.offer(b"".join(parts), senders)
            # it drops what finds its buffer full: after what was just read
            if (dropped := current.dropped()) != dropped_before:
                self._channel.note_dropped((dropped - dropped_before) % DROPS_MODULUS)
                dropped_before = dropped

    async def stop(self) -> None:
        """Close the socket once no datagram waits."""
        if self._input is not None:
            self._input.end()

    def close(self) -> None:
        """Close the socket."""
        if self._input is not None:
            self._input.close()


class ConnectionReader:
    """Accepts connections and reads each: lines of a Unix socket, or messages of syslog.

    A connection that sends faster than the spool takes is not read meanwhile, so its sender waits.
    """

    at_end: Final = False

    def __init__(
        self,
        listen: Callable[[Accept], Awaitable[LocalListener]],
        channel: SpoolChannel,
        make_framing: Callable[[], Framing],
        *,
        connections: int,
        idle_seconds: float,
        clock: Clock,
        log: Any,
    ) -> None:
        """Read at most *connections* at a time; one that is silent for *idle_seconds* is closed."""
        self._listen = listen
        self._channel = channel
        self._make_framing = make_framing
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._log = log
        self._listener: LocalListener | None = None
        self._stop = asyncio.Event()
        self._open = set[ByteStream]()
        self._none_open = asyncio.Event()
        self._none_open.set()
        self._turned_away = 0
        self._warned_at = float("-inf")  # monotonic, s
        self._last_until = 0.0  # until when data is read after `stop` (monotonic, s)

    async def open(self) -> None:
        """Bind and listen: what comes before `run` waits for it."""
        self._listener = await self._listen(self._accept)

    async def run(self) -> None:
        """Wait until `stop`, and then until all connections are read."""
        await self._stop.wait()
        await self._none_open.wait()

    async def reopen(self) -> None:
        """Bind and listen anew; connections that are open stay."""
        former, self._listener = self._listener, await self._listen(self._accept)
        if former is not None:
            await former.close()

    async def stop(self) -> None:
        """Accept no more, and close what is open once the data that has come is read."""
        if self._listener is not None:
            await self._listener.close()
        for stream in self._open:
            stream.refuse_more()
        self._last_until = self._clock.monotonic() + _LAST_SECONDS
        self._stop.set()

    def close(self) -> None:
        """Do nothing more: the listener was closed by `stop`, or ends with the process."""

    async def _accept(self, stream: ByteStream) -> None:
        if len(self._open) >= self._connections:
            self._turn_away(stream)
            return
        self._open.add(stream)
        self._none_open.clear()
        if self._stop.is_set():  # accepted before, and begun only now
            stream.refuse_more()
        try:
            await self._read_connection(stream)
        finally:
            self._open.discard(stream)
            if not self._open:
                self._none_open.set()

    async def _read_connection(self, stream: ByteStream) -> None:
        framing, sender = self._make_framing(), stream.peer.address
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            while data := await self._read_next(stream, stopped):
                await self._hand_over(framing.receive_data(data), sender)
        finally:
            stopped.cancel()
            # the connection is over, by whatever end: what has come of a last message is kept
            await self._hand_over(framing.receive_end(), sender)

    async def _read_next(self, stream: ByteStream, stopped: "asyncio.Future[Any]") -> bytes:
        """Return what comes next; b"" at the end, after a long silence, or once stopped and all
        that had come is read.

        An end that the sender did not make is a reset: what it writes from then on fails. An
        orderly close would still take that, for two seconds, and drop it.
        """
        read = asyncio.ensure_future(stream.read())
        if not stopped.done():
            await asyncio.wait(
                {read, stopped}, timeout=self._idle_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        left = self._last_until - self._clock.monotonic()
        if stopped.done() and not read.done() and left > 0:
            await asyncio.wait({read}, timeout=min(_LAST_SILENCE_SECONDS, left))
        if not read.done():
            read.cancel()
            await asyncio.wait({read})
        if read.cancelled():
            stream.abort()
            return b""
        with contextlib.suppress(TransientError):  # a lost connection is an end, too
            return read.result()
        return b""

    async def _hand_over(self, framed: FramedText, sender: str) -> None:
        if framed.text:
            senders = [(sender, framed.lengths)] if framed.lengths is not None else []
            await self._channel.append(framed.text, senders)

    def _turn_away(self, stream: ByteStream) -> None:
        stream.abort()  # so that what it writes fails, and is not taken and dropped
        self._turned_away += 1
        now = self._clock.monotonic()
        if now - self._warned_at >= _WARN_SECONDS:
            self._warned_at = now
            self._log.warning(
                "too many connections, new ones are turned away",
                input=self._channel.table.name,
                limit=self._connections,
                turned_away=self._turned_away,
                latest=stream.peer.address,
            )
