"""Cuts a byte stream, split anywhere, into frames, and opens envelopes.

Bytes are looked at where they came; only a frame that a read cut in two is kept, and once its
header is known nothing is looked at again before the frame is whole. So each byte is copied at most
twice on its way in, however the stream is split. Every length is compared with its limit as soon as
it is there: before the bytes it announces are awaited.

All work is done in steps, after each of which others may have a turn: some hundred frames, or 2 MiB
out of an envelope. What is unpacked and not yet given is told, so that memory can be asked for
before the next step.
"""

from collections.abc import Callable, Generator, Iterator
from typing import Final, Literal

from logdrive.errors import ProtocolError
from logdrive.wire.lumberjack.envelope import EnvelopeError, Unpacking
from logdrive.wire.lumberjack.extent import KIND_HEAD, FrameMeter
from logdrive.wire.lumberjack.frames import (
    SHORT,
    VERSION_1,
    VERSION_2,
    AckFrame,
    Frame,
    JsonRun,
    KeyValueFrame,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, LumberjackLimits
from logdrive.wire.lumberjack.runs import run_at

Side = Literal["reader", "writer"]
FrameDialect = Literal["lumberjack", "logdrive/1", "detect"]

STEP_FRAMES: Final = 256
"""Frames given at a time. J frames whose numbers go up by one count as one, up to 999 of them."""
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
    ord("W"): WindowFrame.decode,
    ord("D"): KeyValueFrame.decode,
    ord("A"): AckFrame.decode,
    ord("S"): SourceFrame.decode,
    ord("P"): PositionFrame.decode,
    ord("B"): RunFrame.decode,
    ord("E"): RefusalFrame.decode,
}


class FrameReader:
    """The frames of one connection, for the *side* that reads them. Discard it after an error.

    With *dialect* "detect" the first frame decides: S means `logdrive/1`, whose limits then hold in
    place of *limits*. *version* is the version byte of the peer's first frame, b"" before it:
    acknowledgements carry the same. *offset* counts the bytes of whole frames so far, *copied* what
    buffering moved, *opened* what is in memory of the envelope at hand, unpacked.
    """

    __slots__ = (
        "_bare",
        "_envelopes",
        "_events",
        "_extent",
        "_held",
        "_inside",
        "_items",
        "_limits",
        "_need",
        "_side",
        "_versions",
        "copied",
        "dialect",
        "offset",
        "opened",
        "version",
    )

    def __init__(self, limits: LumberjackLimits, *, side: Side, dialect: FrameDialect) -> None:
        if side == "writer" and dialect == "detect":
            raise ValueError("a writer knows its dialect")
        self.dialect: FrameDialect = dialect
        self.version = b""
        self.offset = 0
        self.copied = 0
        self.unpacked_bytes = 0
        self._side: Side = side
        self._held = bytearray()  # the beginning of a frame that is not whole
        self._need = KIND_HEAD  # bytes of it without which there is nothing to do
        self._envelopes = 0
        self._events = self._items = 0  # of the envelope at hand: events; frames, and pairs in them
        self._bare = self._inside = b""
        self._use(limits)

    def receive_data(self, data: bytes) -> list[Frame]:
        """Add *data*; return the frames it completes, those of envelopes in their place.

        Raises `ProtocolError`.

        No work of Python's for a small J frame that follows another (`runs`), and whatever
        inflating takes. Whoever reads from a stranger takes `receive_in_steps` instead.
        """
        frames: list[Frame] = []
        for some in self.receive_in_steps(data):
            frames += some
        return frames

    def receive_in_steps(self, data: bytes) -> Iterator[list[Frame]]:
        """Add *data*; give the frames it completes, a few at a time, or none after a step that only
        unpacked something.

        The step before an envelope comes before anything of it is unpacked, and frames before an
        error are given before it is raised. Go to the end of the steps before adding more.
        """
        if self._held:
            self._held += data
            self.copied += len(data)
            if len(self._held) < self._need or not self._whole():
                return
            data = bytes(self._held)
            self._held.clear()
            self.copied += len(data)
        at = yield from self._walk(data)
        if at < len(data):
            self._held += data[at:] if at else data
            self.copied += len(self._held)

    def discard_rest(self) -> None:
        """Let go of the frame that is not whole: nothing is added any more."""
        self._held = bytearray()
        self.unpacked_bytes = 0

    def _use(self, limits: LumberjackLimits) -> None:
        self._limits = limits
        self._extent = FrameMeter(limits)
        if self.dialect != "detect":
            self._versions = _VERSIONS[self.dialect]
            self._bare, self._inside = _KINDS[self._side, self.dialect]

    def _whole(self) -> bool:
        """Tell whether the frame that is held is whole, having learnt what it still needs."""
        self._need = self._length(self._held, 0)
        return self._need <= len(self._held)

    def _walk(self, data: bytes) -> Generator[list[Frame], None, int]:
        """Give the whole frames of *data*, those of envelopes in their place; return where the last
        one ends.
        """
        at, end = 0, len(data)
        frames: list[Frame] = []
        self._need = KIND_HEAD
        try:
            while end - at >= KIND_HEAD:
                need = self._length(data, at)
                if need > end - at:
                    self._need = need
                    break
                if data[at + 1] == _ENVELOPE:
                    given, frames = frames, []
                    yield given
                    yield from self._open(memoryview(data)[at + SHORT.size : at + need])
                else:
                    need = self._cut(data, at, need, 0, frames)
                at += need
                self.offset += need
                if len(frames) >= STEP_FRAMES:
                    given, frames = frames, []
                    yield given
        except ProtocolError:
            if frames:
                yield frames
            raise
        if frames:
            yield frames
        return at

    def _cut(self, data: bytes, at: int, need: int, envelope: int, frames: list[Frame]) -> int:
        """Append the frame of *need* bytes at *at*, with the J frames that it begins a run of;
        return the length of all.
        """
        if data[at + 1] == _JSON:
            run, need = run_at(data, at, self._limits.payload, envelope)
            frames.append(run)
        else:
            frames.append(_DECODE[data[at + 1]](data, at, envelope))
        return need

    def _length(self, data: bytes | bytearray, at: int, *, inside: bool = False) -> int:
        """Return the least length of the frame at *at*, which has `KIND_HEAD` bytes and may be
        *inside* an envelope.
        """
        if not self.version:
            self.detect(bytes(data[at : at + KIND_HEAD]))
        if data[at] not in self._versions or data[at + 1] not in (
            self._inside if inside else self._bare
        ):
            if inside and data[at + 1] == _ENVELOPE:
                raise ProtocolError("an envelope inside an envelope", offset=self.offset)
            head = bytes(data[at : at + KIND_HEAD])
            raise ProtocolError(
                f"a frame that begins {head!r}, which can't stand here in {self.dialect},",
                offset=self.offset,
            )
        return self._extent.of(data, at, self.offset)

    def detect(self, head: bytes) -> None:
        """Learn the version, and with "detect" the dialect, from the first `KIND_HEAD` bytes of the
        stream, which are to be given to `receive_data` all the same.

        If they begin no frame, *version* stays b"", and `receive_data` will raise.
        """
        if head[:1] in (VERSION_1, VERSION_2):
            self.version = head[:1]
        if self.dialect == "detect":
            self.dialect = "logdrive/1" if head == b"2S" else "lumberjack"
            self._use(LOGDRIVE_1 if self.dialect == "logdrive/1" else self._limits)

    def _open(self, payload: memoryview) -> Iterator[list[Frame]]:
        """Give the frames inside the envelope of *payload*: whole frames only, no envelope among
        them.
        """
        exact = self.dialect == "logdrive/1"
        unpacking = Unpacking(payload, self._limits, zstd=exact, exact=exact)
        self._envelopes += 1
        self._events = self._items = 0
        most = self._limits.frames_free + self._limits.frames_per_byte * len(payload)
        rest: list[bytes] = []  # a frame that is not whole yet, in pieces
        have, need = 0, KIND_HEAD
        pieces = unpacking.pieces()
        while (piece := self._unpacked(pieces)) is not None:
            if piece:
                rest.append(piece)
                have += len(piece)
            self.unpacked_bytes = unpacking.held + have
            if have < need or not piece:
                yield []
                continue
            data = rest[0] if len(rest) == 1 else b"".join(rest)
            rest.clear()
            at, need = yield from self._walk_inside(data, most)
            have = len(data) - at
            if have:
                rest.append(data[at:])
        self.unpacked_bytes = 0
        if have:
            raise ProtocolError("an envelope that ends within a frame", offset=self.offset)

    def _unpacked(self, pieces: Iterator[bytes]) -> bytes | None:
        """Return the next of an envelope's pieces, None after the last one."""
        try:
            return next(pieces, None)
        except EnvelopeError as error:
            code = RefusalCode.LIMIT if error.limit else RefusalCode.PROTOCOL
            raise ProtocolError(str(error), offset=self.offset, code=code) from error

    def _walk_inside(self, data: bytes, most: int) -> Generator[list[Frame], None, tuple[int, int]]:
        """Give the whole frames of *data*, a part of an envelope that may hold *most* frames.

        Return where the last one ends, and how many bytes the next one takes at least.
        """
        at, end, need = 0, len(data), KIND_HEAD
        frames: list[Frame] = []
        try:
            while end - at >= KIND_HEAD:
                need = self._length(data, at, inside=True)
                if need > end - at:
                    break
                at += self._cut(data, at, need, self._envelopes, frames)
                need = KIND_HEAD
                self._count(frames[-1], most)
                if len(frames) >= STEP_FRAMES:
                    given, frames = frames, []
                    yield given
        except ProtocolError:
            if frames:
                yield frames
            raise
        yield frames
        return at, need

    def _count(self, frame: Frame, most: int) -> None:
        """Count *frame* among those of its envelope, which may be *most*.

        Raises `ProtocolError` for one too many.
        """
        events = len(frame) if isinstance(frame, JsonRun) else 1
        self._events += events
        self._items += events + len(frame.pairs) if isinstance(frame, KeyValueFrame) else events
        if self._items > self._limits.frames:
            reason = f"an envelope of more than {self._limits.frames} frames and pairs"
        elif self._events > most:
            reason = f"an envelope of more frames than its size allows, which is {most}"
        else:
            return
        raise ProtocolError(reason, offset=self.offset, code=RefusalCode.LIMIT)
