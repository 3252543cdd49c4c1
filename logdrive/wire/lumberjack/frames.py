"""Single frames of Lumberjack v1, v2 and of the dialect `logdrive/1`: their values and their bytes.

Every frame is a version byte ('1' or '2'), a type byte and a body; integers are big-endian, and
unsigned unless said otherwise. No other module knows the bytes of a frame: `reader` finds frames in
a stream, `plain_windows` and `run_reader` check their order. The layouts are tabled in
`docs/protocols/lumberjack.md`.

Frames with events have *envelope*: 0 if the frame came bare, else the number of the C frame that
held it, counted from 1 in the connection. Acknowledgements have their *version* byte. Both say how
a frame traveled, not what it is, so comparisons ignore them.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain
from typing import Final
from uuid import UUID

from logdrive.model.framing import (
    EVENT_HEAD,
    Part,
    event_size,
    frame_event,
    frame_events,
    unframe_events,
)

VERSION_1: Final = b"1"
VERSION_2: Final = b"2"

CONNECTION: Final = 2**32 - 1
"""The index in an E frame that means the connection, not one source."""

SEQUENCES: Final = 2**32
"""Number of different sequence numbers, which are u32."""

SHORT = struct.Struct("!2sI")  # W, A, C: version and type, one number
EVENT = struct.Struct("!2sII")  # J, Z: sequence, length; D: sequence, pairs
SOURCE = struct.Struct("!2sI16sI")  # S: index, origin id, length
POSITION = struct.Struct("!2sIq16s")  # P: index, number, store id
# B: index, kind, previous, number, read, skipped, events, records
RUN = struct.Struct("!2sIBqqqqII")
REFUSAL = struct.Struct("!2sIHI")  # E: index, code, length
LENGTH = struct.Struct("!I")  # of a key or a value in a D frame


class RefusalCode(IntEnum):
    """Why a reader refuses, in an E frame. Writers take an unknown code as INTERNAL."""

    DRAINING = 0  # the reader ends: connect to another one
    PROTOCOL = 1  # the writer broke the protocol
    LIMIT = 2  # a limit was exceeded, which the text names
    TRY_LATER = 3  # overload, or the sink takes nothing now
    NOT_ALLOWED = 4  # the client identity may not send this
    NO_ROUTE = 5  # no stream is configured for the source
    NO_PROGRESS = 6  # runs of the source did not fit its position again and again
    BAD_ATTRIBUTES = 7  # the source's attributes can't be read
    REGISTERED_LATER = 8  # another connection has registered the source since
    INTERNAL = 9  # the reader failed


@dataclass(frozen=True, slots=True)
class WindowFrame:
    """W: announces a window of *count* events, after which the writer waits for its
    acknowledgement.
    """

    count: int  # events of the window

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frame as it travels."""
        return SHORT.pack(version + b"W", self.count)

    @classmethod
    def decode(cls, data: bytes, at: int, envelope: int) -> "WindowFrame":
        """Return the frame that begins at *at* and is whole."""
        return cls(SHORT.unpack_from(data, at)[1])


@dataclass(frozen=True, slots=True)
class KeyValueFrame:
    """D: one event of Lumberjack v1, as pairs in the order they came; a key may come twice."""

    sequence: int  # number in the window
    pairs: tuple[tuple[str, str], ...]  # key and value
    envelope: int = field(default=0, compare=False)

    def encode(self, version: bytes = VERSION_1) -> bytes:
        """Return the frame as it travels."""
        items = [item.encode() for item in chain.from_iterable(self.pairs)]
        parts = [EVENT.pack(version + b"D", self.sequence, len(self.pairs))]
        for item in items:
            parts += (LENGTH.pack(len(item)), item)
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes, at: int, envelope: int) -> "KeyValueFrame":
        """Return the frame that begins at *at* and is whole; bytes that are not UTF-8 become
        U+FFFD.
        """
        _, sequence, pairs = EVENT.unpack_from(data, at)
        at += EVENT.size
        items: list[str] = []
        for _ in range(2 * pairs):
            start = at + LENGTH.size
            at = start + LENGTH.unpack_from(data, at)[0]
            items.append(data[start:at].decode(errors="replace"))
        return cls(sequence, tuple(zip(items[::2], items[1::2], strict=True)), envelope)


@dataclass(frozen=True, slots=True)
class JsonFrame:
    """J: one event of Lumberjack v2, its JSON unchanged. Readers return `JsonRun`s instead."""

    sequence: int  # number in the window or, in `logdrive/1`, on the connection
    payload: bytes  # the JSON

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frame as it travels."""
        return EVENT.pack(version + b"J", self.sequence, len(self.payload)) + self.payload


@dataclass(frozen=True, slots=True)
class JsonRun:
    """J frames that follow one another, each number one more than the last, as one object.

    What `FrameReader` returns fits one batch (rule R3), except a frame of more than `RECORD_BYTES`,
    which comes by itself.
    """

    first: int  # sequence number of the first frame
    count: int  # of frames
    parts: Sequence[Part]  # the payloads as Pravega events, as the store takes them
    size: int  # bytes of *parts*: 8 and the payload for each event
    envelope: int = field(default=0, compare=False)

    @classmethod
    def of(cls, first: int, payloads: Sequence[bytes]) -> "JsonRun":
        """Return the run of *payloads*, numbered from *first*."""
        events = frame_events(payloads)
        return cls(first, len(payloads), (events,), len(events))

    def __len__(self) -> int:
        return self.count

    @property
    def last(self) -> int:
        """The sequence number of the last frame."""
        return self.first + self.count - 1

    @property
    def payloads(self) -> list[bytes]:
        """The JSON of each frame, cut out of *parts* at each call."""
        return unframe_events(b"".join(self.parts))

    def split(self, count: int) -> tuple["JsonRun", "JsonRun"]:
        """Return the first *count* frames and the others, at least one of each.

        Costs a look at each of the first, which are copied; the others are not.
        """
        events, at = memoryview(self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)), 0
        for _ in range(count):
            at += event_size(events, at)
        return (
            JsonRun(self.first, count, (bytes(events[:at]),), at, self.envelope),
            JsonRun(
                self.first + count,
                self.count - count,
                (events[at:],),
                self.size - at,
                self.envelope,
            ),
        )

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frames as they travel."""
        return b"".join(
            JsonFrame(number, payload).encode(version)
            for number, payload in enumerate(self.payloads, self.first)
        )


@dataclass(frozen=True, slots=True)
class PackFrame:
    """Z (`logdrive/1`): the bytes of a run, packed (rule R8); in place of its J frames."""

    sequence: int  # number on the connection
    parts: Sequence[Part]  # the pack as one Pravega event, as the store takes it
    size: int  # bytes of *parts*: 8 and the pack
    envelope: int = field(default=0, compare=False)

    @classmethod
    def of(cls, sequence: int, pack: bytes) -> "PackFrame":
        """Return the frame of *pack*."""
        return cls(sequence, (frame_event(pack),), EVENT_HEAD + len(pack))

    @property
    def pack(self) -> Part:
        """The pack, not copied: the last part has all of it."""
        last = memoryview(self.parts[-1])
        return last[EVENT_HEAD - (self.size - len(last)) :]

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frame as it travels."""
        return b"".join(pack_frame(self.sequence, self.pack, version))


@dataclass(frozen=True, slots=True)
class EnvelopeFrame:
    """C: frames packed together; *payload* is what `envelope.pack` returns.

    Readers unpack it and return the frames inside.
    """

    payload: bytes  # the packed frames

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frame as it travels."""
        return SHORT.pack(version + b"C", len(self.payload)) + self.payload


@dataclass(frozen=True, slots=True)
class AckFrame:
    """A: everything up to *sequence* is durable; 0 is a keepalive."""

    sequence: int  # number of an event; 0 for a keepalive
    version: bytes = field(default=VERSION_2, compare=False)

    def encode(self, version: bytes | None = None) -> bytes:
        """Return the frame as it travels; write it in one piece, since some clients read it without
        a loop.
        """
        return SHORT.pack((version or self.version) + b"A", self.sequence)

    @classmethod
    def decode(cls, data: bytes, at: int, envelope: int) -> "AckFrame":
        """Return the frame that begins at *at* and is whole."""
        kind, sequence = SHORT.unpack_from(data, at)
        return cls(sequence, kind[:1])


@dataclass(frozen=True, slots=True)
class SourceFrame:
    """S (`logdrive/1`): registers a source under *index*, or frees the index if there are no
    attributes.
    """

    index: int  # number of the source on this connection
    origin: UUID  # the source's origin id
    attributes: bytes  # JSON, unchanged

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frame as it travels."""
        return (
            SOURCE.pack(version + b"S", self.index, self.origin.bytes, len(self.attributes))
            + self.attributes
        )

    @classmethod
    def decode(cls, data: bytes, at: int, envelope: int) -> "SourceFrame":
        """Return the frame that begins at *at* and is whole."""
        _, index, origin, length = SOURCE.unpack_from(data, at)
        start = at + SOURCE.size
        return cls(index, UUID(bytes=origin), data[start : start + length])


@dataclass(frozen=True, slots=True)
class PositionFrame:
    """P (`logdrive/1`): the number that a store has for a source.

    Negative numbers are the special ones of `logdrive.model.numbers`.
    """

    index: int  # that of the source's S frame
    number: int  # position and check bits (rule P1)
    store: UUID  # the store's id

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frame as it travels."""
        return POSITION.pack(version + b"P", self.index, self.number, self.store.bytes)

    @classmethod
    def decode(cls, data: bytes, at: int, envelope: int) -> "PositionFrame":
        """Return the frame that begins at *at* and is whole."""
        _, index, number, store = POSITION.unpack_from(data, at)
        return cls(index, number, UUID(bytes=store))


@dataclass(frozen=True, slots=True)
class RunFrame:
    """B (`logdrive/1`): begins a run of *records* J frames, or of one Z frame, that takes a source
    from *previous* to *number*.
    """

    index: int  # that of the source's S frame
    kind: int  # DATA, GAP or END of `logdrive.model.records`
    previous: int  # number before the run
    number: int  # number after the run
    read: int  # when the agent read it, ms since 1970
    skipped: int  # bytes of the file that the run leaves out
    events: int  # events in its records
    records: int  # J or Z frames that follow
    envelope: int = field(default=0, compare=False)

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frame as it travels."""
        numbers = (
            self.index,
            self.kind,
            self.previous,
            self.number,
            self.read,
            self.skipped,
            self.events,
            self.records,
        )
        return RUN.pack(version + b"B", *numbers)

    @classmethod
    def decode(cls, data: bytes, at: int, envelope: int) -> "RunFrame":
        """Return the frame that begins at *at* and is whole."""
        _, index, kind, previous, number, read, skipped, events, records = RUN.unpack_from(data, at)
        return cls(index, kind, previous, number, read, skipped, events, records, envelope)


@dataclass(frozen=True, slots=True)
class RefusalFrame:
    """E (`logdrive/1`): why a source, or the connection (*index* `CONNECTION`), is refused."""

    index: int  # that of the source's S frame, or `CONNECTION`
    code: int  # a `RefusalCode`, or one that a later version added
    text: str  # the reason, for people

    def encode(self, version: bytes = VERSION_2) -> bytes:
        """Return the frame as it travels."""
        text = self.text.encode()
        return REFUSAL.pack(version + b"E", self.index, self.code, len(text)) + text

    @classmethod
    def decode(cls, data: bytes, at: int, envelope: int) -> "RefusalFrame":
        """Return the frame that begins at *at* and is whole; bytes that are not UTF-8 become
        U+FFFD.
        """
        _, index, code, length = REFUSAL.unpack_from(data, at)
        start = at + REFUSAL.size
        return cls(index, code, data[start : start + length].decode(errors="replace"))


Frame = (
    WindowFrame
    | KeyValueFrame
    | JsonRun
    | PackFrame
    | AckFrame
    | SourceFrame
    | PositionFrame
    | RunFrame
    | RefusalFrame
)
"""The frames that a reader returns."""


def json_frames(first: int, payloads: Sequence[bytes]) -> list[bytes]:
    """Return the v2 J frames of *payloads*, numbered from *first*, as parts to join, write or pack.

    Payloads are not copied.
    """
    head = EVENT.pack
    parts: list[bytes] = []
    for sequence, payload in enumerate(payloads, first):
        parts += (head(b"2J", sequence, len(payload)), payload)
    return parts


def pack_frame(sequence: int, pack: Part, version: bytes = VERSION_2) -> tuple[bytes, Part]:
    """Return the Z frame of *pack* as parts to join or write; the pack is not copied."""
    return EVENT.pack(version + b"Z", sequence, len(pack)), pack
