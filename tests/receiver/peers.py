"""Peers that speak to a receiver in memory, frame by frame."""

import asyncio
from collections.abc import Sequence
from uuid import UUID

import orjson

from logdrive.host.transport import ByteStream
from logdrive.model.numbers import number_of
from logdrive.model.records import DATA, block_record, gap_record
from logdrive.packs.contents import count_text_lines
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    Frame,
    JsonRun,
    PackFrame,
    PositionFrame,
    RefusalFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, PLAIN_LUMBERJACK
from logdrive.wire.lumberjack.reader import FrameDialect, FrameReader

ATTRIBUTES = {"host": "web-1", "path": "/var/log/app.log", "fields": {"team": "a"}, "tags": ["x"]}

SentRun = tuple[RunFrame, Sequence[bytes] | bytes]
"""A run and its records, or its pack."""


class Peer:
    """One connection: frames in the order in which they come, with a time limit on waiting for
    each.
    """

    def __init__(self, stream: ByteStream, dialect: FrameDialect) -> None:
        self.stream = stream
        self._reader = FrameReader(
            LOGDRIVE_1 if dialect == "logdrive/1" else PLAIN_LUMBERJACK,
            side="writer",
            dialect=dialect,
        )
        self._came: list[Frame] = []
        self.ended = False

    @property
    def version(self) -> bytes:
        """The version byte of what came."""
        return self._reader.version

    async def send(self, *frames: bytes) -> None:
        await self.stream.write([b"".join(frames)])

    async def next(self, seconds: float = 60.0, *, keepalives: bool = False) -> Frame | None:
        """Return the next frame, None at the end of the connection; `A 0` only with
        *keepalives*.
        """
        async with asyncio.timeout(seconds):
            while True:
                while self._came:
                    frame = self._came.pop(0)
                    if keepalives or frame != AckFrame(0):
                        return frame
                data = await self.stream.read()
                if not data:
                    self.ended = True
                    return None
                self._came += self._reader.receive_data(data)

    async def silent(self, seconds: float) -> bool:
        """Tell whether nothing comes for so long."""
        try:
            frame = await self.next(seconds, keepalives=True)
        except TimeoutError:
            return True
        assert frame is not None, "the connection ended"
        self._came.insert(0, frame)
        return False


class NativePeer(Peer):
    """A `logdrive/1` writer without a mind of its own."""

    def __init__(self, stream: ByteStream) -> None:
        super().__init__(stream, "logdrive/1")
        self.sequence = 0

    async def register(
        self, index: int, origin: UUID, **attributes: object
    ) -> PositionFrame | RefusalFrame:
        """Send S, return what answers it."""
        await self.send(SourceFrame(index, origin, orjson.dumps(ATTRIBUTES | attributes)).encode())
        answer = await self.next()
        assert isinstance(answer, PositionFrame | RefusalFrame), answer
        assert answer.index == index
        return answer

    def window(self, *runs: SentRun, packed: bool = False) -> bytes:
        """Return a window of *runs*, numbered on."""
        parts: list[bytes] = []
        count = 0
        for run, records in runs:
            first = self.sequence + 1
            frames = (
                PackFrame.of(first, records)
                if isinstance(records, bytes)
                else JsonRun.of(first, records)
            )
            parts += [run.encode(), frames.encode()]
            self.sequence += run.records
            count += run.records
        body = EnvelopeFrame(pack(parts)).encode() if packed else b"".join(parts)
        return WindowFrame(count).encode() + body

    async def send_window(self, *runs: SentRun) -> int:
        """Send a window, return the number that acknowledges it."""
        await self.send(self.window(*runs))
        return self.sequence

    async def acknowledged(self, number: int) -> None:
        """Wait for `A number`; nothing else may come before."""
        frame = await self.next()
        assert frame == AckFrame(number), f"{frame} instead of A {number}"


def run_of(
    index: int, start: int, end: int, text: bytes | None = None, *, lines: int = 1
) -> tuple[RunFrame, list[bytes]]:
    """Return a run of one block that takes a source from *start* to *end*; its bytes are those of
    `content`.
    """
    data = content(end)[start:] if text is None else text
    run = RunFrame(index, DATA, at(start), at(end), 1_700_000_000_000, 0, lines, 1)
    return run, [block_record(start, end, lines, data.decode())]


def pack_of(
    index: int,
    start: int,
    end: int,
    text: bytes | None = None,
    *,
    codec: PackCodec = PackCodec.DEFLATE,
) -> tuple[RunFrame, bytes]:
    """Return a run of one pack of text, otherwise as `run_of`."""
    data = content(end)[start:] if text is None else text
    events = count_text_lines(data)
    run = RunFrame(index, DATA, at(start), at(end), 1_700_000_000_000, 0, events, 1)
    return run, make_pack(PackForm.TEXT, data, codec)


def gap_of(index: int, start: int, end: int) -> tuple[RunFrame, list[bytes]]:
    """Return a gap."""
    return RunFrame(index, 1, at(start), at(end), 1_700_000_000_000, 0, 0, 1), [
        gap_record(start, end, "removed")
    ]


def content(size: int) -> bytes:
    """Return the first *size* bytes of the one file that these peers ship: lines of ten bytes."""
    return b"".join(b"line %04d\n" % number for number in range(size // 10 + 1))[:size]


def at(position: int) -> int:
    """Return the number of *position* in that file."""
    return number_of(position, content(position))
