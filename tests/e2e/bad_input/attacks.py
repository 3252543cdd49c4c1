"""What bad peers say once they are connected: bytes, the dialect they are said in, and the words
that the receiver has for them.
"""

import random
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from uuid import UUID

import zstandard

from logdrive.model.units import KIB, MIB
from logdrive.wire.lumberjack.frames import (
    CONNECTION,
    EVENT,
    REFUSAL,
    SHORT,
    SOURCE,
    VERSION_1,
    AckFrame,
    EnvelopeFrame,
    JsonFrame,
    JsonRun,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from tests.e2e.bad_input.bystanders import run_of, window_of

NATIVE, PLAIN = ("logdrive/1",), ()
MOST = 2**32 - 1
ORIGIN = UUID(int=0xBAD)
SOURCE_0 = SourceFrame(0, ORIGIN, b"{}").encode()


@dataclass(frozen=True)
class Attack:
    """Bytes that a bad peer sends, and how the receiver answers."""

    dialect: tuple[str, ...]  # that the peer offers
    data: Callable[[], bytes]  # makes the bytes
    words: str  # in the receiver's log message
    refusal: int | None = None  # code of the E frame; None for none
    index: int = CONNECTION  # of the E frame
    hang_up: bool = False  # the peer leaves without reading

    @property
    def answer(self) -> bytes | None:
        """How the E frame begins."""
        return (
            REFUSAL.pack(b"2E", self.index, self.refusal, 0)[:8]
            if self.refusal is not None
            else None
        )


def nested(depth: int) -> bytes:
    """Return JSON that is arrays all the way down."""
    return b"[" * depth + b"]" * depth


def deflated(size: int) -> bytes:
    """Return the zlib stream of *size* zeros, made a part at a time."""
    packer, part = zlib.compressobj(9), bytes(MIB)
    return b"".join([*(packer.compress(part) for _ in range(size // MIB)), packer.flush()])


def frames_bomb() -> bytes:
    """Return an envelope of 272 KB with eight million pairs of an empty key and an empty value."""
    frame = EVENT.pack(b"1D", 1, 1024) + bytes(8 * 1024)
    return EnvelopeFrame(zlib.compress(frame * 8180, 9)).encode(VERSION_1)


def frames_of_one_number() -> bytes:
    """Return an envelope of 6 kB with 262,000 frames that have the same number, so that each is one
    of its own.
    """
    return (
        WindowFrame(262_000).encode()
        + EnvelopeFrame(zlib.compress(JsonFrame(1, b"{}").encode() * 262_000, 9)).encode()
    )


def events_bomb() -> tuple[bytes, int]:
    """Return a window of 60 KB whose events take 58 MB, and how many they are: no limit forbids
    it.
    """
    event, count = b'"' + b" " * (700 * KIB) + b'"', 81
    return WindowFrame(count).encode() + EnvelopeFrame(
        zlib.compress(JsonRun.of(1, [event] * count).encode(), 9)
    ).encode(), count


def of_run(run: RunFrame, *records: bytes) -> bytes:
    """Return a window of one run, whatever the run says of itself."""
    return WindowFrame(len(records)).encode() + run.encode() + JsonRun.of(1, list(records)).encode()


GOOD_RUN, GOOD_RECORDS = run_of(0, 0, 100)

ATTACKS: dict[str, Attack] = {
    # Garbage
    "a web browser": Attack(
        PLAIN, lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "begins b'GE'"
    ),
    "noise": Attack(
        PLAIN, lambda: b"\xff" + random.Random(1).randbytes(100_000), r"begins b'.{1,2}xff"
    ),
    "noise in logdrive/1": Attack(
        NATIVE, lambda: b"\xff" + random.Random(2).randbytes(100_000), r"begins b'.{1,2}xff", 1
    ),
    "version 3": Attack(PLAIN, lambda: b"3W\0\0\0\x01", "begins b'3W'"),
    "garbage after good windows": Attack(
        PLAIN,
        lambda: window_of([b"{}"]) * 3 + b"\0" * 50,
        r"begins b'.{1,2}x00.{1,2}x00'.*offset 9",
    ),
    "a reader's frame": Attack(PLAIN, lambda: AckFrame(7).encode(), "begins b'2A'"),
    "a source without the dialect": Attack(PLAIN, lambda: SOURCE_0, "begins b'2S'"),
    "an envelope of noise": Attack(
        PLAIN, lambda: EnvelopeFrame(b"\xff" * 500).encode(), "does not inflate"
    ),
    "an envelope in an envelope": Attack(
        PLAIN,
        lambda: EnvelopeFrame(zlib.compress(EnvelopeFrame(b"x").encode())).encode(),
        "an envelope inside an envelope",
    ),
    "events without JSON": Attack(
        PLAIN, lambda: WindowFrame(1).encode() + EVENT.pack(b"2J", 1, 0), "a J frame without JSON"
    ),
    # Truncated
    "half a frame": Attack(
        PLAIN,
        lambda: WindowFrame(2).encode() + JsonFrame(1, b"x" * 1000).encode()[:500],
        "middle of a frame",
        hang_up=True,
    ),
    "half a header": Attack(PLAIN, lambda: b"2", "middle of a frame", hang_up=True),
    "half an envelope": Attack(
        NATIVE,
        lambda: WindowFrame(1).encode() + EnvelopeFrame(b"x" * 1000).encode()[:500],
        "middle of a frame",
        hang_up=True,
    ),
    "half a run": Attack(
        NATIVE, lambda: SOURCE_0 + WindowFrame(2).encode(), "middle of a window", hang_up=True
    ),
    "a cut zlib stream": Attack(
        PLAIN, lambda: EnvelopeFrame(zlib.compress(bytes(900))[:-9]).encode(), "stream is cut off"
    ),
    "an envelope that ends in a frame": Attack(
        PLAIN,
        lambda: EnvelopeFrame(zlib.compress(JsonFrame(1, b"{}").encode()[:-1])).encode(),
        "ends within a frame",
    ),
    # Oversized lengths, each told from the header alone
    "an event of 4 GiB": Attack(
        PLAIN, lambda: EVENT.pack(b"2J", 1, MOST), "an event of 4294967295 bytes, over"
    ),
    "an envelope of 4 GiB": Attack(
        PLAIN, lambda: SHORT.pack(b"2C", MOST), "an envelope of 4294967295 bytes, over"
    ),
    "an event of four billion pairs": Attack(
        PLAIN, lambda: EVENT.pack(b"1D", 1, MOST), "an event of 4294967295 pairs, over"
    ),
    "a key of 4 GiB": Attack(
        PLAIN,
        lambda: EVENT.pack(b"1D", 1, 1) + b"\xff" * 4,
        "a key or value of 4294967295 bytes, over",
    ),
    "a record of 1 MiB": Attack(
        NATIVE, lambda: EVENT.pack(b"2J", 1, MIB), "an event of 1048576 bytes, over", 2
    ),
    "attributes of 4 GiB": Attack(
        NATIVE,
        lambda: SOURCE.pack(b"2S", 0, ORIGIN.bytes, MOST),
        "attributes of 4294967295 bytes, over",
        2,
    ),
    "a window of four billion": Attack(
        NATIVE, lambda: WindowFrame(MOST).encode(), "a window of 4294967295 events, over", 2
    ),
    "a refusal from a writer": Attack(
        NATIVE, lambda: REFUSAL.pack(b"2E", 0, 1, 0), "begins b'2E'", 1
    ),
    # Bombs
    "eighty mebibytes of zeros": Attack(
        PLAIN, partial(lambda: EnvelopeFrame(deflated(80 * MIB)).encode()), "unpacks to more than"
    ),
    "eighty mebibytes of zeros in zstd": Attack(
        NATIVE,
        lambda: (
            WindowFrame(1).encode()
            + EnvelopeFrame(zstandard.ZstdCompressor().compress(bytes(80 * MIB))).encode()
        ),
        "unpacks to more than",
        2,
    ),
    "a zstd window of 2 GiB": Attack(
        NATIVE,
        lambda: (
            WindowFrame(1).encode()
            + EnvelopeFrame(b"\x28\xb5\x2f\xfd\x00\xa8" + b"\0" * 20).encode()
        ),
        "zstd window of",
        2,
    ),
    "a frame's number a quarter of a million times": Attack(
        PLAIN, frames_of_one_number, "more frames than its size allows"
    ),
    "eight million empty pairs": Attack(PLAIN, frames_bomb, "pairs"),
    # Contradictions
    "deep attributes": Attack(
        NATIVE,
        lambda: SourceFrame(0, ORIGIN, b'{"fields":{"a":' + nested(7000) + b"}}").encode(),
        "source refused.* index=0 .*inside one another",
        7,
        0,
    ),
    "a run of nobody": Attack(
        NATIVE, lambda: of_run(GOOD_RUN, *GOOD_RECORDS), "unknown index 0", 1
    ),
    "a run before its position": Attack(
        NATIVE, lambda: SOURCE_0 + of_run(GOOD_RUN, *GOOD_RECORDS), "before its P", 1
    ),
}
