"""Cuts a byte stream, split anywhere, into frames, and opens envelopes.

Bytes are looked at where they came; only a frame that a read cut in two is kept, and once its header is known nothing is
looked at again before the frame is whole. So each byte is copied at most twice on its way in, however the stream is split.
Every length is compared with its limit as soon as it is there: before the bytes it announces are awaited.
"""

from collections.abc import Callable, Iterator
from typing import Final, Literal

from logdrive.errors import ProtocolError
from logdrive.limits import LOGDRIVE_1, LumberjackLimits
from logdrive.wire.lumberjack.envelope import EnvelopeError, unpack
from logdrive.wire.lumberjack.extent import KIND_HEAD, Extent
from logdrive.wire.lumberjack.frames import (
    SHORT,
    VERSION_1,
    VERSION_2,
    Ack,
    Data,
    Frame,
    Position,
    Refusal,
    RefusalCode,
    Run,
    Source,
    Window,
)
from logdrive.wire.lumberjack.runs import run_at

Side = Literal["reader", "writer"]
Dialect = Literal["lumberjack", "logdrive/1", "detect"]

_JSON: Final = ord("J")
_ENVELOPE: Final = ord("C")
_VERSIONS: Final = {"lumberjack": b"12", "logdrive/1": b"2"}
_KINDS: Final = {  # what the peer may send: bare, and inside an envelope
    ("reader", "lumberjack"): (b"WDJC", b"WDJ"),
    ("reader", "logdrive/1"): (b"SWBJC", b"BJ"),
    ("writer", "lumberjack"): (b"A", b""),
    ("writer", "logdrive/1"): (b"APE", b""),
}
_DECODE: Final[dict[int, Callable[[bytes, int, int], Frame]]] = {
    ord("W"): Window.decode,
    ord("D"): Data.decode,
    ord("A"): Ack.decode,
    ord("S"): Source.decode,
    ord("P"): Position.decode,
    ord("B"): Run.decode,
    ord("E"): Refusal.decode,
}


class FrameReader:
    """The frames of one connection, for the *side* that reads them. Discard it after an error.

    With *dialect* "detect" the first frame decides: S means `logdrive/1`, whose limits then hold in place of *limits*. *version* is
    the version byte of the peer's first frame, b"" before it: acknowledgements carry the same. *offset* counts the bytes of
    whole frames so far, *copied* what buffering moved, *unpacked* what came out of envelopes.
    """

    def __init__(self, limits: LumberjackLimits, *, side: Side, dialect: Dialect) -> None:
        if side == "writer" and dialect == "detect":
            raise ValueError("a writer knows its dialect")
        self.dialect: Dialect = dialect
        self.version = b""
        self.offset = 0
        self.copied = 0
        self.unpacked = 0
        self._side: Side = side
        self._held = bytearray()  # the beginning of a frame that is not whole
        self._need = KIND_HEAD  # bytes of it without which there is nothing to do
        self._envelopes = 0
        self._bare = self._inside = b""
        self._use(limits)

    def feed(self, data: bytes) -> list[Frame]:
        """Add *data*; return the frames it completes, those of envelopes in their place. Raises `ProtocolError`.

        No work of Python's for a small J frame that follows another (`runs`), and whatever inflating takes.
        """
        frames: list[Frame] = []
        for some in self.steps(data):
            frames += some
        return frames

    def steps(self, data: bytes) -> Iterator[list[Frame]]:
        """Add *data*; give the frames it completes a list at a time, each ending with its first envelope's.

        So no more than one envelope's content is in memory at once, and frames before an error are given before it is raised.
        Go to the end of the steps before adding more.
        """
        if self._held:
            self._held += data
            self.copied += len(data)
            if len(self._held) < self._need or not self._whole():
                return
            data = bytes(self._held)
            self._held.clear()
            self.copied += len(data)
        at, more = 0, True
        while more:
            frames: list[Frame] = []
            try:
                at, more = self._walk(data, at, frames)
            except ProtocolError:
                if frames:
                    yield frames
                raise
            if frames:
                yield frames
        if at < len(data):
            self._held += data[at:] if at else data
            self.copied += len(self._held)

    def _use(self, limits: LumberjackLimits) -> None:
        self._limits = limits
        self._extent = Extent(limits)
        if self.dialect != "detect":
            self._versions = _VERSIONS[self.dialect]
            self._bare, self._inside = _KINDS[self._side, self.dialect]

    def _whole(self) -> bool:
        """Tell whether the frame that is held is whole, having learnt what it still needs."""
        self._need = self._length(self._held, 0)
        return self._need <= len(self._held)

    def _walk(self, data: bytes, at: int, frames: list[Frame]) -> tuple[int, bool]:
        """Append the whole frames from *at* on to *frames*, up to the end of the first envelope.

        Return where it stopped, and whether an envelope was the reason rather than a frame that is not whole.
        """
        end = len(data)
        self._need = KIND_HEAD
        while end - at >= KIND_HEAD:
            need = self._length(data, at)
            if need > end - at:
                self._need = need
                break
            kind = data[at + 1]
            if kind == _ENVELOPE:
                self._open(memoryview(data)[at + SHORT.size : at + need], frames)
                self.offset += need
                return at + need, True
            if kind == _JSON:
                run, need = run_at(data, at, self._limits.payload, 0)
                frames.append(run)
            else:
                frames.append(_DECODE[kind](data, at, 0))
            at += need
            self.offset += need
        return at, False

    def _length(self, data: bytes | bytearray, at: int, *, inside: bool = False) -> int:
        """Return the least length of the frame at *at*, which has `KIND_HEAD` bytes and may be *inside* an envelope."""
        if not self.version:
            self._meet(bytes(data[at : at + KIND_HEAD]))
        if data[at] not in self._versions or data[at + 1] not in (self._inside if inside else self._bare):
            if inside and data[at + 1] == _ENVELOPE:
                raise ProtocolError("an envelope inside an envelope", offset=self.offset)
            head = bytes(data[at : at + KIND_HEAD])
            raise ProtocolError(f"a frame that begins {head!r}, which can't stand here in {self.dialect},", offset=self.offset)
        return self._extent.of(data, at, self.offset)

    def _meet(self, head: bytes) -> None:
        """Learn from the first frame's *head* which version, and if need be which dialect, the peer speaks."""
        if head[:1] in (VERSION_1, VERSION_2):
            self.version = head[:1]
        if self.dialect == "detect":
            self.dialect = "logdrive/1" if head == b"2S" else "lumberjack"
            self._use(LOGDRIVE_1 if self.dialect == "logdrive/1" else self._limits)

    def _open(self, payload: memoryview, frames: list[Frame]) -> None:
        """Append the frames inside the envelope of *payload*: whole frames only, no envelope among them."""
        exact = self.dialect == "logdrive/1"
        try:
            data = unpack(payload, self._limits, zstd=exact, exact=exact)
        except EnvelopeError as error:
            code = RefusalCode.LIMIT if error.limit else RefusalCode.PROTOCOL
            raise ProtocolError(str(error), offset=self.offset, code=code) from error
        self.unpacked += len(data)
        self._envelopes += 1
        at, end, count = 0, len(data), 0
        while at < end:
            if end - at < KIND_HEAD or (need := self._length(data, at, inside=True)) > end - at:
                raise ProtocolError("an envelope that ends within a frame", offset=self.offset)
            if data[at + 1] == _JSON:
                run, need = run_at(data, at, self._limits.payload, self._envelopes)
                frames.append(run)
                count += len(run)
            else:
                frame = _DECODE[data[at + 1]](data, at, self._envelopes)
                frames.append(frame)
                count += 1 + len(frame.pairs) if isinstance(frame, Data) else 1
            if count > self._limits.frames:
                reason = f"an envelope of more than {self._limits.frames} frames and pairs"
                raise ProtocolError(reason, offset=self.offset, code=RefusalCode.LIMIT)
            at += need
