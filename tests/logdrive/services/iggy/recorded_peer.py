"""A peer that answers with what servers and stock clients were recorded with (tests/vectors/iggy).

What the recordings lack it refuses, as servers do what a user may not ask.
"""

import json
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from logdrive.host.transport import ByteStream

FOLDER = Path(__file__).parents[3] / "vectors/iggy"
HEAD = 256  # of R3's frames
REFUSED = 41
"""Status of a request that the user may not make."""
NOT_UNDERSTOOD = bytes.fromhex("03000000 00000000")
"""What a classic server answers to what it can't read, a frame of R3 for one."""


@dataclass(frozen=True)
class Recorded:
    """One exchange of a recording."""

    name: str
    request: bytes
    reply: bytes


def recording(file: str) -> list[Recorded]:
    """Return the exchanges of *file* that were answered."""
    found = json.loads((FOLDER / f"{file}.json").read_text())["exchanges"]
    return [
        Recorded(one["name"], bytes.fromhex(one["request"]), bytes.fromhex(one["reply"]))
        for one in found
        if one["reply"]
    ]


class Replies(Protocol):
    """Says what the peer answers."""

    def __call__(self, frame: bytes) -> bytes | None:
        """Return the reply to a frame; None ends the connection without one."""
        ...


@dataclass
class RecordedPeer:
    """Cuts frames of either kind, notes them and answers them one after the other."""

    replies: Replies
    frames: list[bytes] = field(default_factory=list)

    async def serve(self, stream: ByteStream) -> None:
        """Serve one connection."""
        buffer = b""
        while data := await stream.read():
            buffer += data
            while (size := _frame_size(buffer)) is not None and len(buffer) >= size:
                frame, buffer = buffer[:size], buffer[size:]
                self.frames.append(frame)
                reply = self.replies(frame)
                if reply is None:
                    stream.abort()
                    return
                await stream.write([reply])


def _frame_size(buffer: bytes) -> int | None:
    """Return the size of the frame that begins *buffer*; None until that is known."""
    if len(buffer) < 8:
        return None
    length = int(struct.unpack_from("<I", buffer)[0])
    if length:
        return 4 + length
    return int(struct.unpack_from("<I", buffer, 48)[0]) if len(buffer) >= HEAD else None


def refused(frame: bytes) -> bytes:
    """Return the refusal of a request."""
    if frame[:4] != bytes(4):
        return struct.pack("<II", REFUSED, 0)
    head = bytearray(HEAD)
    struct.pack_into("<I", head, 48, HEAD)
    head[60], head[208] = 8, frame[176]
    struct.pack_into("<I", head, 216, REFUSED)
    return bytes(head)


def kind_of(frame: bytes) -> tuple[int, int]:
    """Return the kind of a request: its operation in R3, else 0; and its code."""
    if frame[:4] == bytes(4):
        return frame[176], int(struct.unpack_from("<I", frame, 196)[0])
    return 0, int(struct.unpack_from("<I", frame, 4)[0])
