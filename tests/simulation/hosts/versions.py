"""Programs of the version before packs.

An agent of that version offers only `logdrive/1`, and sends blocks. A receiver of it agrees on no
other dialect, and takes a `Z` frame for what it was then: a frame of an unknown type.
"""

from collections.abc import Callable, Sequence
from typing import Final

from logdrive.errors import ProtocolError
from logdrive.host.transport import (
    Accept,
    ByteStream,
    ClientTls,
    Listener,
    ListenerLimits,
    Peer,
    ServerTls,
    Transport,
)
from logdrive.model.framing import Part
from logdrive.wire.lumberjack.frames import PackFrame
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameReader

PACKED: Final = "logdrive/1.1"
"""Name by which both ends agree in the TLS handshake that Z frames may come."""
NATIVE: Final = "logdrive/1"
"""Name of the dialect without them."""
UNKNOWN_BEFORE: Final = frozenset({PACKED})
"""Names of dialects that the version before packs does not know."""

Refused = Callable[[Peer], None]
"""Called with the peer that sent a pack to a receiver of the version before."""


class TransportBefore:
    """The transport of a receiver of the version before packs.

    To *refused* it reports each peer whose pack it did not understand.
    """

    def __init__(self, transport: Transport, refused: Refused) -> None:
        self._transport, self._refused = transport, refused

    async def connect(self, host: str, port: int, tls: ClientTls | None) -> ByteStream:
        """Return a connection as it is."""
        return await self._transport.connect(host, port, tls)

    async def listen(
        self,
        host: str,
        port: int,
        tls: ServerTls | None,
        accept: Accept,
        limits: ListenerLimits | None = None,
    ) -> Listener:
        """Listen; what comes is read as the version before would."""

        async def heard(stream: ByteStream) -> None:
            await accept(_StreamBefore(stream, self._refused))

        return await self._transport.listen(host, port, tls, heard, limits)


class _StreamBefore:
    """A connection that ends with the first Z frame."""

    def __init__(self, stream: ByteStream, refused: Refused) -> None:
        self.peer = stream.peer
        self._stream, self._refused = stream, refused
        # None: what comes is broken in another way, which the receiver finds itself
        self._reader: FrameReader | None = FrameReader(
            PLAIN_LUMBERJACK, side="reader", dialect="detect"
        )

    async def read(self) -> bytes:
        """Return the next bytes. Raises `ProtocolError` once a Z frame is whole."""
        data = await self._stream.read()
        if self._reader is not None and data:
            try:
                frames = self._reader.receive_data(data)
            except ProtocolError:
                self._reader = None
                return data
            if any(isinstance(frame, PackFrame) for frame in frames):
                self._refused(self.peer)
                what = "a frame that begins b'2Z', which can't stand here in logdrive/1,"
                raise ProtocolError(what, offset=self._reader.offset)
        return data

    async def write(self, parts: Sequence[Part]) -> None:
        """Write all *parts*."""
        await self._stream.write(parts)

    def refuse_more(self) -> None:
        """Refuse what the peer writes, as far as that can be had."""
        self._stream.refuse_more()

    async def close(self) -> None:
        """Close the connection."""
        await self._stream.close()

    def abort(self) -> None:
        """Reset the connection."""
        self._stream.abort()
