"""Streams for the tests of the codec: golden vectors, Hypothesis strategies, readers of each kind,
and frames made comparable.
"""

import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import UUID

import zstandard
from hypothesis import strategies as st

from logdrive.errors import ProtocolError
from logdrive.packs.pack import PACK_HEAD
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    Frame,
    JsonFrame,
    JsonRun,
    KeyValueFrame,
    PackFrame,
    PositionFrame,
    RefusalFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1, PLAIN_LUMBERJACK, LumberjackLimits
from logdrive.wire.lumberjack.reader import FrameDialect, FrameReader, Side

VECTORS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "vectors/lumberjack/frames.json").read_text()
)
SPOKEN: tuple[tuple[FrameDialect, Side], ...] = (
    ("lumberjack", "reader"),
    ("lumberjack", "writer"),
    ("logdrive/1", "reader"),
    ("logdrive/1", "writer"),
)
"""Each dialect, and the side that reads."""

ORIGIN = UUID("00112233-4455-6677-8899-aabbccddeeff")

u32 = st.one_of(st.integers(0, 20), st.integers(0, 2**32 - 1))
i64 = st.integers(-(2**63), 2**63 - 1)
uuids = st.uuids()
versions = st.sampled_from([b"1", b"2"])

windows = st.builds(WindowFrame, u32)
datas = st.builds(
    KeyValueFrame,
    u32,
    st.lists(st.tuples(st.text(max_size=9), st.text(max_size=9)), max_size=4).map(tuple),
)
jsons = st.builds(JsonFrame, u32, st.binary(min_size=1, max_size=40))
runs = st.builds(RunFrame, u32, st.integers(0, 255), i64, i64, i64, i64, u32, u32)
packs = st.builds(PackFrame.of, u32, st.binary(min_size=PACK_HEAD + 1, max_size=40))
sources = st.builds(SourceFrame, u32, uuids, st.binary(max_size=40))
acks = st.builds(AckFrame, u32)
positions = st.builds(PositionFrame, u32, i64, uuids)
refusals = st.builds(RefusalFrame, u32, st.integers(0, 2**16 - 1), st.text(max_size=20))

Sent = (
    WindowFrame
    | KeyValueFrame
    | JsonFrame
    | PackFrame
    | RunFrame
    | SourceFrame
    | AckFrame
    | PositionFrame
    | RefusalFrame
    | EnvelopeFrame
)


def consecutive(first: int, payloads: Iterable[bytes]) -> list[JsonFrame]:
    return [JsonFrame(first + i, payload) for i, payload in enumerate(payloads)]


def encoded(frames: Iterable[Sent], version: bytes = b"2") -> bytes:
    return b"".join(frame.encode(version) for frame in frames)


@st.composite
def plain_streams(draw: st.DrawFn) -> tuple[bytes, list[Any]]:
    """Bytes of a v1 or v2 writer, versions mixed, and what is in them."""
    stream, expected = b"", list[Any]()
    bursts = st.builds(
        consecutive,
        st.integers(0, 100),
        st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=5),
    )
    groups: st.SearchStrategy[list[Any]] = st.one_of(
        st.lists(st.one_of(windows, datas, jsons), max_size=3), bursts
    )
    for _ in range(draw(st.integers(0, 4))):
        group: list[Sent] = draw(groups)
        content = b"".join(frame.encode(draw(versions)) for frame in group)
        if draw(st.booleans()):
            packed = draw(
                st.sampled_from(
                    [pack(content), zlib.compress(content, 6), zlib.compress(content, 0)]
                )
            )
            content = EnvelopeFrame(packed).encode(draw(versions))
        stream += content
        expected += group
    return stream, expected


@st.composite
def logdrive_streams(draw: st.DrawFn) -> tuple[bytes, list[Any]]:
    """Bytes of a `logdrive/1` writer, the first frame S, and what is in them; their order is not
    D1's.
    """
    group: list[Sent] = [draw(sources)]
    stream, expected = encoded(group), list[Any](group)
    bursts = st.builds(
        consecutive,
        st.integers(0, 100),
        st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=5),
    )
    for _ in range(draw(st.integers(0, 4))):
        if draw(st.booleans()):
            group = draw(
                st.one_of(st.lists(st.one_of(runs, jsons, packs), min_size=1, max_size=3), bursts)
            )
            content = encoded(group)
            packed = draw(
                st.sampled_from(
                    [pack(content), pack(content, "zstd"), zstandard.compress(content, 3)]
                )
            )
            stream += EnvelopeFrame(packed).encode()
        else:
            group = draw(
                st.lists(
                    st.one_of(
                        windows.filter(lambda w: w.count <= LOGDRIVE_1.window),
                        runs,
                        jsons,
                        packs,
                        sources,
                    ),
                    max_size=3,
                )
            )
            stream += encoded(group)
        expected += group
    return stream, expected


@st.composite
def reply_streams(draw: st.DrawFn) -> tuple[bytes, list[Any]]:
    """Bytes of a `logdrive/1` reader, and what is in them."""
    group: list[Sent] = draw(st.lists(st.one_of(acks, positions, refusals), max_size=6))
    return encoded(group), list(group)


def reader(
    dialect: FrameDialect = "lumberjack",
    side: Side = "reader",
    limits: LumberjackLimits | None = None,
) -> FrameReader:
    return FrameReader(
        limits or (LOGDRIVE_1 if dialect == "logdrive/1" else PLAIN_LUMBERJACK),
        side=side,
        dialect=dialect,
    )


def kinds_taken(dialect: FrameDialect, side: Side) -> set[str]:
    """Return the types of bare frames that a reader takes: others are refused by their head."""
    taken: set[str] = set()
    for kind in range(256):
        try:
            reader(dialect, side).receive_data(b"2" + bytes([kind]))
        except ProtocolError:
            continue
        taken.add(chr(kind))
    return taken


def feed_in_steps(frames: FrameReader, stream: bytes, step: int) -> list[Frame]:
    return [
        frame
        for i in range(0, len(stream), step)
        for frame in frames.receive_data(stream[i : i + step])
    ]


def events(frames: Iterable[Frame]) -> list[Any]:
    """Return *frames* with each `JsonRun` split into single frames: how many come in one run
    depends on the reads.
    """
    singles: list[Any] = []
    for frame in frames:
        singles += (
            consecutive(frame.first, frame.payloads) if isinstance(frame, JsonRun) else [frame]
        )
    return singles
