"""Checks of the frames of an HTTP/2 peer, before h2 sees them.

h2 keeps a whole frame before it compares its length with the limit, has no limit on how often a
frame comes, and closes its state at the first GOAWAY, though open streams go on after it. So this
guard walks the heads of the frames first: it refuses lengths and floods from the head alone, cuts
what has arrived into pieces of limited work, and keeps GOAWAY frames back.

It also saves most of h2's cost, which is one per frame (8 µs, and copies of what is incomplete):
where DATA frames begin and end has no meaning, so h2 gets what has arrived of several such frames
of one stream as one frame. Per frame that costs some 2 µs.
"""

from collections.abc import Callable, Iterator
from typing import Final

from h2.errors import ErrorCodes

from logdrive.net.http.errors import PeerFaultError
from logdrive.net.http.limits import FRAME_HEAD_BYTES, PREFACE, HttpLimits, Rate

# types of frames (RFC 9113, section 6)
_DATA: Final = 0
_HEADERS: Final = 1
_RST_STREAM: Final = 3
_SETTINGS: Final = 4
_PING: Final = 6
_GOAWAY: Final = 7
_WINDOW_UPDATE: Final = 8
_CONTINUATION: Final = 9
_END_STREAM: Final = 0x1
_PADDED: Final = 0x8
_PREFACE: Final = -1  # no frame
_PADDED_DATA: Final = -2  # a DATA frame that h2 gets as it is
_GOAWAY_BYTES: Final = 8  # last stream and error code, before the debug data


class RateLimit:
    """A token bucket for one kind of frame; *name* is the limit's name in `HttpLimits`."""

    __slots__ = ("_last", "_rate", "_tokens", "name")

    def __init__(self, name: str, rate: Rate, now: float) -> None:
        self.name = name
        self._rate = rate
        self._tokens = float(rate.burst)
        self._last = now  # seconds, when tokens were last added

    def allow(self, now: float) -> bool:
        """Take a token; return False if there is none."""
        if self._tokens < 1:
            self._tokens += (now - self._last) * self._rate.per_second
            self._tokens = min(self._tokens, float(self._rate.burst))
            self._last = now
            if self._tokens < 1:
                return False
        self._tokens -= 1
        return True


class FrameGuard:
    """Walks the bytes of one peer; *clock* returns seconds, *server* expects the preface first."""

    def __init__(self, limits: HttpLimits, clock: Callable[[], float], *, server: bool) -> None:
        self.went_away: tuple[int, int] | None = None  # last stream and error code of a GOAWAY
        self._limits = limits
        self._clock = clock
        self._head = b""  # the part of a frame's head that has arrived
        self._kind = _PREFACE  # of the frame under way
        self._left = len(PREFACE) if server else 0  # bytes left of it
        self._goaway = bytearray()  # payload of the GOAWAY under way
        self._pieces: list[bytes | memoryview] = []  # for h2
        # the run of DATA frames that h2 gets as one frame
        self._run: list[memoryview] = []
        self._run_stream = b""  # as in the frames' heads
        self._run_open = False  # it has a frame, be it an empty one
        self._run_ends = False  # END_STREAM follows the frame under way
        # the header block under way
        self._block_bytes = 0
        self._block_frames = 0
        now = clock()
        self._empty = RateLimit("empty_frames", limits.empty_frames, now)
        self._others = RateLimit("other_frames", limits.other_frames, now)
        self._rates = {
            _RST_STREAM: RateLimit("resets", limits.resets, now),
            _PING: RateLimit("pings", limits.pings, now),
            _SETTINGS: RateLimit("settings", limits.settings, now),
        }

    def cut(self, data: bytes) -> Iterator[bytes]:
        """Yield what h2 may see of *data*, in pieces with at most `frames_a_turn` frames.

        Raises `PeerFaultError` before the frame that breaks a limit.
        """
        view = memoryview(data)
        size, position, frames = len(data), 0, 0
        while position < size:
            if self._left:
                step = min(self._left, size - position)
                self._pass_on(view[position : position + step])
                position += step
                self._left -= step
                if not self._left:
                    self._end_frame()
                continue

            if frames >= self._limits.frames_a_turn:
                yield self._take()
                frames = 0
            missing = FRAME_HEAD_BYTES - len(self._head)
            head = self._head + view[position : position + missing]
            position += missing
            if len(head) < FRAME_HEAD_BYTES:
                self._head = head
                break
            self._head = b""
            frames += 1
            self._begin_frame(head)
        if piece := self._take():
            yield piece

    def _begin_frame(self, head: bytes) -> None:
        self._check(head)
        kind, flags = head[3], head[4]
        self._kind = kind
        if kind == _DATA and flags & _PADDED:
            self._kind = _PADDED_DATA  # h2 finds out what of it is padding
        if self._kind == _DATA:
            if head[5:] != self._run_stream:
                self._end_run(0)
                self._run_stream = head[5:]
            self._run_open = self._run_open or self._left == 0
            self._run_ends = bool(flags & _END_STREAM)
        elif kind == _GOAWAY:
            self._goaway.clear()
        else:
            self._end_run(0)
            self._pieces.append(head)
        if not self._left:
            self._end_frame()

    def _pass_on(self, payload: memoryview) -> None:
        """Pass on a part of the frame under way."""
        if self._kind == _DATA:
            self._run.append(payload)
        elif self._kind == _GOAWAY:
            self._goaway += payload[: max(0, _GOAWAY_BYTES - len(self._goaway))]
        else:
            self._pieces.append(payload)

    def _end_frame(self) -> None:
        if self._kind == _DATA and self._run_ends:
            self._run_open = True
            self._end_run(_END_STREAM)
        elif self._kind == _GOAWAY:
            last = int.from_bytes(self._goaway[:4], "big") & 0x7FFF_FFFF
            self.went_away = (last, int.from_bytes(self._goaway[4:], "big"))

    def _end_run(self, flags: int) -> None:
        """Make one DATA frame of the run."""
        if self._run or self._run_open:
            size = sum(map(len, self._run))
            self._pieces.append(size.to_bytes(3, "big") + bytes((_DATA, flags)) + self._run_stream)
            self._pieces += self._run
            self._run.clear()
            self._run_open = False

    def _take(self) -> bytes:
        """Return what has arrived for h2; a DATA frame that has not ended is cut here."""
        self._end_run(0)
        data = b"".join(self._pieces)
        self._pieces.clear()
        return data

    def _check(self, head: bytes) -> None:
        """Check the frame that begins with *head*, and note its length."""
        length, kind = head[0] << 16 | head[1] << 8 | head[2], head[3]
        if kind == _DATA:
            if length > self._limits.frame_bytes:
                raise _too_long("DATA", length, "frame_bytes", self._limits.frame_bytes)
            if length == 0 and not head[4] & _END_STREAM:
                self._count(self._empty, "empty frames")
        elif length > self._limits.control_frame_bytes:
            limit = self._limits.control_frame_bytes
            raise _too_long(f"type {kind}", length, "control_frame_bytes", limit)
        elif kind in (_HEADERS, _CONTINUATION):
            self._check_block(kind, head[4], length)
        elif kind == _GOAWAY:
            if length < _GOAWAY_BYTES:
                raise PeerFaultError(
                    "a GOAWAY frame is too short", code=ErrorCodes.FRAME_SIZE_ERROR
                )
            self._goaway = bytearray()
        elif kind != _WINDOW_UPDATE:  # each is owed to bytes that we have sent
            self._count(self._rates.get(kind, self._others), f"frames of type {kind}")
        self._left = length

    def _check_block(self, kind: int, flags: int, length: int) -> None:
        if kind == _HEADERS:
            self._block_bytes = self._block_frames = 0
        else:
            self._block_frames += 1
        self._block_bytes += length
        if self._block_bytes > self._limits.header_block_bytes:
            raise PeerFaultError(
                f"a header block is longer than {self._limits.header_block_bytes} bytes",
                code=ErrorCodes.ENHANCE_YOUR_CALM,
                limit="header_block_bytes",
            )
        if self._block_frames > self._limits.continuation_frames:
            raise PeerFaultError(
                f"a header block has more than {self._limits.continuation_frames} CONTINUATION "
                "frames",
                code=ErrorCodes.ENHANCE_YOUR_CALM,
                limit="continuation_frames",
            )
        if length == 0:
            self._count(self._empty, "empty frames")

    def _count(self, rate: RateLimit, what: str) -> None:
        if not rate.allow(self._clock()):
            raise PeerFaultError(
                f"too many {what}", code=ErrorCodes.ENHANCE_YOUR_CALM, limit=rate.name
            )


def _too_long(what: str, length: int, name: str, limit: int) -> PeerFaultError:
    return PeerFaultError(
        f"a {what} frame of {length} bytes is longer than {limit}",
        code=ErrorCodes.FRAME_SIZE_ERROR,
        limit=name,
    )
