"""Tables of inputs whose bytes can't be read twice, and are kept in a spool on the disk until they
are acknowledged: [stdin], [[pipe]], [[socket]], [[syslog]].
"""

from typing import Annotated, Literal

import msgspec

from agent.config.encodings import UNIT_BYTES
from agent.config.events import EventsTable
from agent.config.formats import FormatName, FormatTable
from logdrive.address import host_port
from logdrive.config.bounds import Count, Positive, checked
from logdrive.model.units import GIB, KIB, MIB
from logdrive.net.settings import ServerTlsConfig

SYSLOG_PORT = 514
"""The port of syslog over UDP and TCP."""
SYSLOG_TLS_PORT = 6514
"""The port of syslog over TLS (RFC 5425)."""

MESSAGE_BYTES = 256 * KIB
"""Limit on a message: what is read of a spool at once has several."""

MessageLimit = Annotated[int, msgspec.Meta(ge=480, le=MESSAGE_BYTES)]
"""Limit on a message; 480 bytes are those that every receiver of syslog takes (RFC 5424)."""

Mode = Annotated[str, msgspec.Meta(pattern="^0?[0-7]{3}$")]
"""Permission bits of a file, in octal digits."""


def _check_absolute(path: str) -> None:
    if not path.startswith("/"):
        raise ValueError(f"{path!r} must be an absolute path, as in /run/app/log")


def _check_socket_path(path: str) -> None:
    """Refuse a relative path, and one that a socket's address has no room for."""
    _check_absolute(path)
    if len(path.encode()) > 107:
        raise ValueError(f"{path!r}: the path of a Unix socket has at most 107 bytes")


class SpooledTable(EventsTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of each table of an input that is spooled."""

    spool_bytes: Annotated[int, msgspec.Meta(ge=8 * MIB)] = GIB
    """Limit on the bytes of this input that wait in the spool."""

    def __post_init__(self) -> None:
        """Refuse what the first bytes of a file say: those of a spool are freed in time."""
        super().__post_init__()
        if self.canonical_encoding in ("utf-16", "utf-32"):
            raise ValueError(
                f"encoding: {self.encoding} does not say the order of bytes: write "
                f"{self.encoding}-le or {self.encoding}-be"
            )

    def _refuse_cutting(self) -> None:
        """Refuse keys that say what lines are, where newlines don't show where messages end."""
        if not self.has_plain_lines:
            raise ValueError(
                "encoding, line_end, longest_event_bytes and multiline are of lines: here each "
                "message is an event, in UTF-8"
            )

    @property
    def name(self) -> str:
        """Its name: its source's path, and a part of its origin id."""
        raise NotImplementedError


class StdinTable(SpooledTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [stdin] table: the agent's standard input."""

    quiet_seconds: Positive = 30.0
    """Seconds without growth after which a last line without newline is shipped (rule P3)."""

    @property
    def name(self) -> str:
        """Its name."""
        return "stdin"


class PipeTable(SpooledTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[pipe]] table: a named pipe."""

    path: Annotated[str, checked(_check_absolute)]
    """The pipe's absolute path; it is made where it is missing."""

    mode: Mode = "0660"
    """Permission bits of a pipe that is made."""

    quiet_seconds: Positive = 30.0
    """Seconds without growth after which a last line without newline is shipped (rule P3)."""

    def __post_init__(self) -> None:
        """Refuse a relative path."""
        super().__post_init__()
        _check_absolute(self.path)

    @property
    def name(self) -> str:
        """Its name."""
        return f"pipe:{self.path}"


class SocketTable(SpooledTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[socket]] table: a Unix socket."""

    path: Annotated[str, checked(_check_socket_path)]
    """The socket's absolute path; one that nothing listens at is replaced."""

    kind: Literal["stream", "datagram"] = "stream"
    """Whether lines come over connections, or each datagram is a message."""

    mode: Mode = "0660"
    """Permission bits of the socket."""

    message_bytes: MessageLimit = 64 * KIB
    """Limit on a datagram; the rest of a longer one is cut off. A longer line of a connection may
    come as several.
    """

    connections: Count = 256
    """Limit on open connections."""

    idle_seconds: Positive = 3600.0
    """Seconds of silence after which a connection is closed."""

    def __post_init__(self) -> None:
        """Refuse a path at which no socket can be, and keys of lines where there are none."""
        super().__post_init__()
        _check_socket_path(self.path)
        if self.kind == "datagram":
            self._refuse_cutting()
        elif self.line_end != "\n" or self.canonical_encoding in UNIT_BYTES:
            raise ValueError("lines of connections end with a newline, in one byte")

    @property
    def needs_events(self) -> bool:
        """Whether events are made of its bytes: of datagrams, whose ends no newline shows."""
        return self.kind == "datagram" or super().needs_events

    @property
    def name(self) -> str:
        """Its name."""
        return f"{'socket' if self.kind == 'stream' else 'datagram'}:{self.path}"


class SyslogTable(SpooledTable, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[syslog]] table: a port that syslog messages are sent to."""

    format: FormatName | FormatTable | None = "syslog"
    """The form of the messages."""

    listen: Annotated[str, checked(host_port)]
    """Address to listen at, host:port; 514 is the default port, 6514 with TLS."""

    protocol: Literal["udp", "tcp", "tls"]
    """How messages come."""

    tls: ServerTlsConfig | None = None
    """Certificates, for the protocol "tls" alone."""

    message_bytes: MessageLimit = 64 * KIB
    """Limit on a message; the rest of a longer one is cut off."""

    connections: Count = 256
    """Limit on open connections."""

    idle_seconds: Positive = 3600.0
    """Seconds of silence after which a connection is closed."""

    def __post_init__(self) -> None:
        """Refuse an invalid address, and certificates that are missing or not used."""
        super().__post_init__()
        host_port(self.listen)  # raises ValueError
        self._refuse_cutting()
        if (self.protocol == "tls") != (self.tls is not None):
            raise ValueError(
                'protocol: "tls" and a table [syslog.tls] go together: give both, or neither'
            )

    @property
    def needs_events(self) -> bool:
        """True: newlines do not show where messages end, and each has its sender."""
        return True

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen at."""
        return host_port(self.listen, SYSLOG_TLS_PORT if self.protocol == "tls" else SYSLOG_PORT)

    @property
    def name(self) -> str:
        """Its name."""
        host, port = self.address
        return f"syslog:{self.protocol}:{f'[{host}]' if ':' in host else host}:{port}"
