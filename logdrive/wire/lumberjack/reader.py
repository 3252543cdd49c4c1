"""Cuts a byte stream, split anywhere, into frames, and unpacks envelopes.

Frames are decoded from the bytes as they were read. Only a frame that a read cut in two is kept,
and once its header is known nothing is looked at again before the frame is whole; so each byte is
copied at most twice on its way in, however the stream is split. Every length is compared with its
limit as soon as it is there, before the bytes that it announces are awaited.

The work is done in steps of some hundred frames, or 2 MiB unpacked, so that other connections can
have a turn between them. `FrameReader.unpacked_bytes` says how much is unpacked and not yet
returned, so that memory can be asked for before the next step.
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
from logdrive.wire.lumberjack.runs import pack_at, run_at

Side = Literal["reader", "writer"]
FrameDialect = Literal["lumberjack", "logdrive/1", "detect"]

STEP_FRAMES: Final = 256
"""Frames returned by one step. Up to 999 J frames whose numbers go up by one count as one."""
_JSON: Final = ord("J")
_ENVELOPE: Final = ord("C")
_VERSIONS: Final = {"lumberjack": b"12", "logdrive/1": b"2"}
_KINDS: Final = {  # what the peer may send: bare, and inside an envelope
    ("reader", "lumberjack"): (b"WDJC", b"WDJ"),
    ("reader", "logdrive/1"): (b"SWBJZC", b"BJZ"),
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
    ord("Z"): pack_at,
    ord("E"): RefusalFrame.decode,
}


class FrameReader:
    """The frames of one connection, for the *side* that reads them. Discard it after an error.

    With *dialect* "detect" the first frame decides: S means `logdrive/1`, whose limits then replace
    *limits*.
    """

    __slots__ = (
        "_bare",
        "_envelopes",
        "_held",
        "_inside",
        "_limits",
        "_meter",
        "_need",
        "_side",
        "_versions",
        "copied",
        "dialect",
        "offset",
        "unpacked_bytes",
        "version",
    )

    def __init__(self, limits: LumberjackLimits, *, side: Side, dialect: FrameDialect) -> None:
        if side == "writer" and dialect == "detect":
            raise ValueError("a writer knows its dialect")
        self.dialect: FrameDialect = dialect
        self.version = b""
        """Version byte of the peer's first frame, b"" before it; acknowledgements carry the same.
        """
        self.offset = 0
        """Bytes of the stream in whole frames so far."""
        self.copied = 0
        """Bytes copied to keep frames that reads cut in two."""
        self.unpacked_bytes = 0
        """Bytes of the envelope at hand that are unpacked and kept in memory."""
        self._side: Side = side
        self._held = bytearray()  # the beginning of a frame that is not whole
        self._need = KIND_HEAD  # bytes that have to be held before it is worth looking again
        self._envelopes = 0  # envelopes opened so far
        self._bare = b""  # frame types that the peer may send
        self._inside = b""  # frame types that its envelopes may hold
        self._use(limits)

    def receive_data(self, data: bytes) -> list[Frame]:
        """Add *data*; return the frames that it completes, those of envelopes in their place.

        Raises `ProtocolError`.

        Costs no Python code for a small J frame that follows another one (`runs`), and the time of
        unpacking. For data of strangers use `receive_in_steps`.
        """
        frames: list[Frame] = []
        for some in self.receive_in_steps(data):
            frames += some
        return frames

    def receive_in_steps(self, data: bytes) -> Iterator[list[Frame]]:
        """Add *data*; yield the frames that it completes, a few at a time, or none after a step
        that only unpacked something.

        The step before an envelope comes before anything of it is unpacked, and frames before an
        error are yielded before it is raised. Exhaust the iterator before adding more data.

        Raises `ProtocolError`.
        """
        # bytes are copied only while a frame is not whole
        if self._held:
            self._held += data
            self.copied += len(data)
            if len(self._held) < self._need or not self._is_whole():
                return
            data = bytes(self._held)
            self._held.clear()
            self.copied += len(data)

        at, self._need = yield from self._walk(data)

        if at < len(data):
            self._held += data[at:] if at else data
            self.copied += len(self._held)

    def discard_rest(self) -> None:
        """Release the frame that is not whole; to be called when nothing more is added."""
        self._held = bytearray()
        self.unpacked_bytes = 0

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

    def _use(self, limits: LumberjackLimits) -> None:
        self._limits = limits
        self._meter = FrameMeter(limits)
        if self.dialect != "detect":
            self._versions = _VERSIONS[self.dialect]
            self._bare, self._inside = _KINDS[self._side, self.dialect]

    def _is_whole(self) -> bool:
        """Return whether the held frame is whole; learn how many bytes it needs."""
        self._need = self._length(self._held, 0)
        return self._need <= len(self._held)

    # Frames --------------------------------------------------------------------------------------

    def _walk(
        self, data: bytes, envelope: "_EnvelopeFrames | None" = None
    ) -> Generator[list[Frame], None, tuple[int, int]]:
        """Yield the whole frames of *data*, bytes of the stream or, unpacked, of *envelope*.

        Return where the last one ends, and how many bytes the next one takes at least.
        """
        at, end = 0, len(data)
        needed = KIND_HEAD
        number = 0 if envelope is None else envelope.number
        frames: list[Frame] = []
        try:
            while end - at >= KIND_HEAD:
                length = self._length(data, at, inside=envelope is not None)
                if length > end - at:
                    needed = length
                    break

                # `_length` has refused an envelope inside an envelope
                if data[at + 1] == _ENVELOPE:
                    given, frames = frames, []
                    yield given
                    yield from self._open(memoryview(data)[at + SHORT.size : at + length])
                else:
                    length = self._cut(data, at, length, number, frames)

                at += length
                if envelope is None:
                    self.offset += length
                else:
                    envelope.count(frames[-1], self.offset)

                if len(frames) >= STEP_FRAMES:
                    given, frames = frames, []
                    yield given
        # the frames before the error are good
        except ProtocolError:
            if frames:
                yield frames
            raise

        # a part of an envelope is a step even if no frame of it is whole
        if frames or envelope is not None:
            yield frames
        return at, needed

    def _cut(self, data: bytes, at: int, length: int, envelope: int, frames: list[Frame]) -> int:
        """Append the frame of *length* bytes at *at* to *frames*, together with the J frames that
        follow it in order; return the length of all.
        """
        if data[at + 1] == _JSON:
            run, length = run_at(data, at, self._limits.payload, envelope)
            frames.append(run)
        else:
            frames.append(_DECODE[data[at + 1]](data, at, envelope))
        return length

    def _length(self, data: bytes | bytearray, at: int, *, inside: bool = False) -> int:
        """Return the least length of the frame at *at*, which has `KIND_HEAD` bytes and may be
        *inside* an envelope.

        Raises `ProtocolError` for a frame that may not come here, or is over a limit.
        """
        # the connection's first frame
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
        return self._meter.least_length(data, at, self.offset)

    # Envelopes -----------------------------------------------------------------------------------

    def _open(self, payload: memoryview) -> Iterator[list[Frame]]:
        """Yield the frames inside the envelope of *payload*: whole frames, no envelope among them.

        Raises `ProtocolError`.
        """
        exact = self.dialect == "logdrive/1"
        unpacking = Unpacking(payload, self._limits, zstd=exact, exact=exact)
        self._envelopes += 1
        envelope = _EnvelopeFrames(self._envelopes, len(payload), self._limits)
        rest: list[bytes] = []  # a frame that is not whole yet, in parts
        have, needed = 0, KIND_HEAD  # bytes of it that are there, and that it takes at least
        parts = unpacking.parts()
        while (part := self._unpacked(parts)) is not None:
            if part:
                rest.append(part)
                have += len(part)
            self.unpacked_bytes = unpacking.held + have
            # nothing to decode yet, but a step all the same
            if have < needed or not part:
                yield []
                continue

            data = rest[0] if len(rest) == 1 else b"".join(rest)
            rest.clear()
            at, needed = yield from self._walk(data, envelope)
            have = len(data) - at
            if have:
                rest.append(data[at:])

        self.unpacked_bytes = 0
        if have:
            raise ProtocolError("an envelope that ends within a frame", offset=self.offset)

    def _unpacked(self, parts: Iterator[bytes]) -> bytes | None:
        """Return the next part of an envelope, None after the last one."""
        try:
            return next(parts, None)
        except EnvelopeError as error:
            code = RefusalCode.LIMIT if error.limit else RefusalCode.PROTOCOL
            raise ProtocolError(str(error), offset=self.offset, code=code) from error


class _EnvelopeFrames:
    """One envelope while its frames are decoded: *number* counts from 1 in the connection, *size*
    is its packed bytes.
    """

    __slots__ = ("_events", "_items", "_most_events", "_most_items", "number")

    def __init__(self, number: int, size: int, limits: LumberjackLimits) -> None:
        self.number = number
        self._most_events = limits.frames_free + limits.frames_per_byte * size  # limit on frames
        self._most_items = limits.frames  # limit on frames and pairs together
        self._events = 0  # frames so far
        self._items = 0  # frames, and pairs in them

    def count(self, frame: Frame, offset: int) -> None:
        """Count *frame*. Raises `ProtocolError` with *offset* for one too many."""
        events = len(frame) if isinstance(frame, JsonRun) else 1
        self._events += events
        # each pair becomes an object, too
        self._items += events + len(frame.pairs) if isinstance(frame, KeyValueFrame) else events
        if self._items > self._most_items:
            reason = f"an envelope of more than {self._most_items} frames and pairs"
        elif self._events > self._most_events:
            reason = (
                f"an envelope of more frames than its size allows, which is {self._most_events}"
            )
        else:
            return
        raise ProtocolError(reason, offset=offset, code=RefusalCode.LIMIT)
