"""Wires: bytes over one non-blocking socket, by plain TCP, or by TLS with OpenSSL on the socket.

OpenSSL reads and writes the socket itself. A memory BIO in between would cost three times the CPU
for sending.
"""

import enum
import socket
from collections.abc import Callable
from typing import Final, Protocol

from OpenSSL import SSL

from logdrive.errors import RejectedError, TransientError
from logdrive.model.units import KIB, MIB
from logdrive.net.failures import openssl_reasons, socket_failure, tls_failure
from logdrive.net.verification import Handshake

READ_BYTES: Final = 256 * KIB
READS_BYTES: Final = 64 * MIB
"""Limit on what the reads of all accepted connections may bring in one round of the event loop,
during which no connection can be stopped.
"""
# a TLS record's most; one read into OpenSSL returns no more than one record
_RECORD_BYTES: Final = 16 * KIB
# so many in one turn, however small: a peer that sends single bytes must not keep the others
# waiting
_RECORDS: Final = 64


class Want(enum.Enum):
    """State of a socket that a call has to wait for."""

    READ = "readable"
    WRITE = "writable"


def read_bytes(connections: int, together: int = READS_BYTES) -> int:
    """Return the limit on one read, in bytes, with this many accepted *connections*, *together*
    that of all; at least a TLS record.
    """
    return max(_RECORD_BYTES, min(READ_BYTES, together // max(1, connections)))


def _alone() -> int:
    return READ_BYTES


class Wire(Protocol):
    """Non-blocking bytes. Failures are `TransientError`s."""

    more: bool
    """Whether bytes may wait above the socket, so that its becoming readable must not be waited
    for.
    """

    def receive(self) -> bytes | Want:
        """Return up to 256 KiB, b"" at the end, or what to wait for."""
        ...

    def send(self, data: memoryview) -> int | Want:
        """Return how many bytes were taken, or what to wait for; then the same *data* must be
        offered again.
        """
        ...

    def say_goodbye(self) -> Want | None:
        """Send the end of the stream; return what to wait for before calling again, or None."""
        ...


class PlainWire:
    """Plain TCP. *most* returns the limit on the next read, in bytes."""

    __slots__ = ("_most", "_peer", "_socket")

    more = False

    def __init__(self, sock: socket.socket, peer: str, most: Callable[[], int] = _alone) -> None:
        self._socket = sock
        self._peer = peer  # host:port, for errors
        self._most = most  # limit on the next read (bytes)

    def receive(self) -> bytes | Want:
        """Return what the kernel has."""
        try:
            return self._socket.recv(self._most())
        except BlockingIOError:
            return Want.READ
        except OSError as error:
            raise socket_failure(self._peer, error) from error

    def send(self, data: memoryview) -> int | Want:
        """Give the kernel what it takes."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return Want.WRITE
        except OSError as error:
            raise socket_failure(self._peer, error) from error

    def say_goodbye(self) -> Want | None:
        """Do nothing: the end of a plain stream is TCP's own."""
        return None


class TlsWire:
    """A pyOpenSSL connection, its handshake done.

    Costs what OpenSSL costs, and up to a fifth more to receive. *our_certificate* names what was
    shown to the peer: under TLS 1.3 its refusal comes only with the first read or write. *most* is
    as `PlainWire`'s.
    """

    __slots__ = ("_connection", "_ended", "_heard", "_late", "_most", "_ours", "_peer", "more")

    def __init__(
        self,
        connection: SSL.Connection,
        peer: str,
        our_certificate: str | None,
        most: Callable[[], int] = _alone,
    ) -> None:
        self._connection = connection
        self._peer = peer  # host:port, for errors
        self._ours = our_certificate  # what was shown to the peer; None on a server
        self._most = most  # limit on the next read (bytes)
        self._late: TransientError | None = None  # failure for the next read
        self._ended = False  # the peer has ended its side
        self._heard = False  # the peer has sent something
        self.more = True  # the handshake may have brought data along

    def receive(self) -> bytes | Want:
        """Return the records that have arrived, joined."""
        if self._late is not None:
            raise self._late
        if self._ended:
            return b""

        parts: list[bytes] = []
        want = self._receive_into(parts)
        # OpenSSL may hold records that it has read already
        self.more = want is not Want.READ
        if parts:
            self._heard = True
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if self._late is not None:
            raise self._late
        return want or b""

    def _receive_into(self, parts: list[bytes]) -> Want | None:
        """Fill *parts* up to the limit; return what to wait for before more can come."""
        receive, size, most = self._connection.recv, 0, self._most()
        try:
            while size < most and len(parts) < _RECORDS:
                parts.append(receive(min(_RECORD_BYTES, most - size)))
                size += len(parts[-1])
        except SSL.WantReadError:
            return Want.READ
        except SSL.WantWriteError:  # an answer to a key update does not fit into the socket
            return Want.WRITE
        except SSL.ZeroReturnError:
            self._ended = True
        except SSL.Error as error:
            self._note(error)
        return None

    def _note(self, error: SSL.Error) -> None:
        """Keep a failure for the next read, after the bytes that came before it.

        An end of TCP without close_notify is an end, too, once the peer has sent something.
        """
        if isinstance(error, SSL.SysCallError) and error.args[0] == -1 and self._heard:
            self._ended = True
        else:
            self._late = self._explained(error)

    def _explained(self, error: SSL.Error) -> TransientError:
        if isinstance(error, SSL.SysCallError):
            hint = ""
            # under TLS 1.3 a server refuses our certificate only after the handshake
            if not self._heard and self._ours is not None:
                hint = (
                    f" before it said anything: if this repeats, it may refuse {self._ours}; "
                    "see its log"
                )
            text = (
                f"{self._peer}: the connection was ended by the other side "
                f"({openssl_reasons(error)}){hint}"
            )
            return RejectedError(text, sure=False) if hint else TransientError(text)

        handshake = self._connection.get_app_data()
        failure = tls_failure(
            self._peer, error, handshake if isinstance(handshake, Handshake) else None
        )
        if isinstance(failure, RejectedError) and self._ours and "alert" in str(failure):
            return RejectedError(f"{failure} ({self._ours})", sure=failure.sure)
        return failure

    def send(self, data: memoryview) -> int | Want:
        """Encrypt and send *data*, whole unless the socket is full."""
        try:
            return self._connection.send(data)
        except SSL.WantWriteError:
            return Want.WRITE
        # the peer must answer first
        except SSL.WantReadError:
            return Want.READ
        except SSL.ZeroReturnError as error:
            raise TransientError(
                f"{self._peer}: the connection was closed by the other side"
            ) from error
        except SSL.Error as error:
            raise self._why_broken(error) from error

    def _why_broken(self, error: SSL.Error) -> TransientError:
        """Return why the connection broke: the alert, if one came before the socket failed."""
        self._late = self._explained(error)
        if isinstance(error, SSL.SysCallError):
            try:
                # what else had arrived is lost with the connection, and will be sent again
                while True:
                    self._connection.recv(_RECORD_BYTES)
            except SSL.Error as last_error:
                if "alert" in openssl_reasons(last_error):
                    self._late = self._explained(last_error)
        return self._late

    def say_goodbye(self) -> Want | None:
        """Send close_notify."""
        try:
            self._connection.shutdown()
        except SSL.WantWriteError:
            return Want.WRITE
        except SSL.WantReadError:
            return Want.READ
        except SSL.Error as error:
            raise self._explained(error) from error
        return None
