"""Limits of HTTP connections. Each bounds what one peer can make us keep, compute or wait for."""

from dataclasses import dataclass
from typing import Final

from logdrive.model.units import KIB, MIB

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""First bytes of a client that speaks HTTP/2 (RFC 9113, section 3.4)."""

FRAME_HEAD_BYTES: Final = 9
"""Bytes of a frame's head: length, type, flags, stream (RFC 9113, section 4.1)."""

DEFAULT_WINDOW_BYTES: Final = 65_535
"""Flow-control window of a connection before any WINDOW_UPDATE (RFC 9113, section 6.9.2)."""

RESPONSE_BYTES: Final = 8 * MIB
"""Limit on the body of a response that a client takes whole, unless it gives another."""

TINY_CHUNK_BYTES: Final = 4 * KIB
"""Chunks of a body below this size are joined while they wait: each object costs some 60 bytes."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Limit on how often a peer may do something: *burst* times at once, then *per_second*."""

    burst: int
    per_second: float


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits, of one connection unless they say so; the defaults are those of a server."""

    # What HTTP/2 peers are told in SETTINGS
    concurrent_streams: int = 200  # open streams, and handlers that still run
    stream_window_bytes: int = 1 * MIB  # of a body that its handler has not yet taken
    connection_window_bytes: int = 4 * MIB  # of all bodies of one connection
    frame_bytes: int = 1 * MIB  # payload of a DATA frame; h2's cost is one per frame
    header_list_bytes: int = 16_384  # headers of one request, decoded; also HTTP/1.1's head

    # What HTTP/2 peers may send
    header_block_bytes: int = 32 * KIB  # one block in HEADERS and CONTINUATION frames, encoded
    continuation_frames: int = 32  # of one header block
    control_frame_bytes: int = 16_384  # payload of any frame but DATA
    frames_a_turn: int = 256  # handled before other connections run
    resets: Rate = Rate(1000, 33)  # RST_STREAM (rapid reset, CVE-2023-44487)
    pings: Rate = Rate(1000, 33)
    settings: Rate = Rate(100, 10)
    empty_frames: Rate = Rate(1000, 33)  # DATA, HEADERS and CONTINUATION without any byte
    other_frames: Rate = Rate(10_000, 1000)  # PRIORITY and unknown types

    # What is kept for a peer that does not read
    write_bytes: int = 256 * KIB  # given to the connection at once
    data_frame_bytes: int = 256 * KIB  # payload of a DATA frame sent; streams take turns by it
    control_queue_bytes: int = 256 * KIB  # acknowledgements and the like that wait to be written
    write_stall_seconds: float = 60.0  # for one write, until the peer reads

    # What all connections of a server keep together
    held_body_bytes: int = 128 * MIB  # of bodies that wait for their handlers; then a pause

    # HTTP/1.1
    body_queue_bytes: int = 256 * KIB  # of a body that its handler has not yet taken
    unread_body_bytes: int = 64 * KIB  # read and dropped after the answer, to keep a connection

    # Time
    head_seconds: float = 30.0  # for the first bytes, and for the head of an HTTP/1.1 request
    idle_seconds: float = 120.0  # of a connection without streams
    ping_seconds: float = 30.0  # of silence with open streams, before a PING and after it
    linger_seconds: float = 1.0  # for the rest of a body after the response has ended
    orphan_seconds: float = 5.0  # for a handler to end by itself after its stream is lost


SERVER_LIMITS: Final = HttpLimits()
"""Limits of a server, unless it is given others."""

CLIENT_LIMITS: Final = HttpLimits(
    stream_window_bytes=8 * MIB, connection_window_bytes=32 * MIB, ping_seconds=10.0
)
"""Limits of a client: it chose its server, and reads much from it."""
