"""A scripted receiver of Lumberjack v1: it takes only W, C and D of version 1, and acknowledges
whole windows.
"""

import base64

from logdrive.errors import ProtocolError, TransientError
from logdrive.host.transport import ByteStream
from logdrive.wire.lumberjack.frames import VERSION_1, AckFrame, KeyValueFrame, WindowFrame
from logdrive.wire.lumberjack.limits import PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameReader


def file_bytes_of(pairs: dict[str, str]) -> bytes:
    """Return the bytes of the file that an event was made from."""
    original = pairs.get("event.original_base64")
    line = pairs["line"].encode() if original is None else base64.b64decode(original)
    return line + pairs.get("log.eol", "\n").encode()


class V1Model:
    """A receiver of version 1: *events* by path, with those that came twice; *windows* has the
    count of each window.
    """

    def __init__(self) -> None:
        self.events: dict[str, list[dict[str, str]]] = {}
        self.windows: list[int] = []
        self.connections = 0
        self.acknowledge = True
        self.forgetful = False
        """Nothing is kept of what comes while nothing is acknowledged."""
        self.patience: list[bytes] = []
        """Written before each acknowledgement."""
        self.faults: list[str] = []

    async def accept(self, stream: ByteStream) -> None:
        """Serve one connection; close it on anything that a receiver of version 1 can't take."""
        self.connections += 1
        reader, left, sequence = (
            FrameReader(PLAIN_LUMBERJACK, side="reader", dialect="lumberjack"),
            0,
            0,
        )
        try:
            while data := await stream.read():
                for frame in reader.receive_data(data):
                    if reader.version != VERSION_1:
                        self.faults.append(f"version {reader.version.decode()}")
                        stream.abort()
                        return
                    if isinstance(frame, WindowFrame):
                        self._expect(left == 0, "a window within another")
                        left, sequence = frame.count, 0
                        self.windows.append(left)
                        continue
                    self._expect(isinstance(frame, KeyValueFrame), type(frame).__name__)
                    assert isinstance(frame, KeyValueFrame)
                    self._expect(
                        frame.sequence == sequence + 1 and left > 0,
                        f"number {frame.sequence} after {sequence}",
                    )
                    pairs = dict(frame.pairs)
                    self._expect(len(pairs) == len(frame.pairs), "a key twice")
                    if self.acknowledge or not self.forgetful:
                        self.events.setdefault(pairs["file"], []).append(pairs)
                    left, sequence = left - 1, frame.sequence
                    if left == 0 and self.acknowledge:
                        for patience in self.patience:
                            await stream.write([patience])
                        await stream.write([AckFrame(sequence, VERSION_1).encode()])
        except ProtocolError as error:
            self.faults.append(str(error))
            stream.abort()
        except TransientError:
            stream.abort()

    def _expect(self, good: bool, otherwise: str) -> None:
        if not good:
            self.faults.append(otherwise)

    def content(self, path: str) -> bytes:
        """Return the bytes of the first delivery of each event, joined."""
        first = {int(event["offset"]): event for event in reversed(self.events.get(path, []))}
        at, parts = 0, []
        for offset in sorted(first):
            assert offset == at, f"a line at {offset} after {at}"
            parts.append(file_bytes_of(first[offset]))
            at += len(parts[-1])
        return b"".join(parts)
