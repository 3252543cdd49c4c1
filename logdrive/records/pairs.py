"""Encodes bytes of a file as the pairs of Lumberjack v1's D frames, one event a line (R1, R2).

Each event has `line`, `offset`, `host` and `file`, then the pairs that all lines of a file share
(`logdrive.records.flatten`). `log.eol` names a line end other than LF, `log.flags` the parts of a
long line, and `event.original_base64` has the bytes of a line that is not UTF-8.

A record here is a D frame without its version, type and sequence number. The records of one run of
plain lines differ only in line and offset, so a run is kept as these two and encoded only when its
frames are sent: about 0.5 µs for a line of 188 bytes, from file to frame.
"""

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, overload

from logdrive.kernel.loops import place_lines
from logdrive.kernel.plain import packed_numbers
from logdrive.model.framing import EVENT_HEAD
from logdrive.records.blocks import LinePart
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from logdrive.records.flatten import EOL, FILE, FLAGS, HOST, LINE, OFFSET, ORIGIN, ORIGINAL
from logdrive.records.lines import PlainLines, cut_lines
from logdrive.records.runs import FramedRecords, Records, Run
from logdrive.wire.lumberjack.frames import LENGTH, KeyValueFrame

_KIND: Final = b"1D"
_SEQUENCE: Final = struct.Struct("!2sI")
_NO_SEQUENCE: Final = _KIND + bytes(LENGTH.size)

_SHORT_KEY: Final = 256
"""Characters of a key that is kept encoded: lines bring keys of any length, and each another."""

Pair = tuple[str, str]
"""The key and value of a D frame's pair."""


def encode_pairs(pairs: Sequence[Pair]) -> bytes:
    """Return *pairs* as a record: a D frame without its version, type and sequence number."""
    return KeyValueFrame(0, tuple(pairs)).encode()[_SEQUENCE.size :]


class SamePairs:
    """Pairs that many records share, encoded once."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._count = len(pairs)
        self._encoded = encode_pairs(pairs)[LENGTH.size :]

    def encode_between(self, before: Sequence[Pair], after: Sequence[Pair]) -> bytes:
        """Return a record of *before*, these pairs, and *after*.

        Costs about 0.3 µs for each pair whose key came before.
        """
        parts = [LENGTH.pack(len(before) + self._count + len(after))]
        _add_pairs(parts, before)
        parts.append(self._encoded)
        _add_pairs(parts, after)
        return b"".join(parts)


def _add_pairs(parts: list[bytes], pairs: Sequence[Pair]) -> None:
    pack = LENGTH.pack
    for key, text in pairs:
        value = text.encode()
        encoded = _known_key(key) if len(key) <= _SHORT_KEY else _encoded_key(key)
        parts += (encoded, pack(len(value)), value)


@lru_cache(4096)
def _known_key(key: str) -> bytes:
    return _encoded_key(key)


def _encoded_key(key: str) -> bytes:
    encoded = key.encode()
    return LENGTH.pack(len(encoded)) + encoded


def decode_pairs(payload: bytes) -> dict[str, str]:
    """Return the pairs of a record that `encode_pairs` made."""
    return dict(KeyValueFrame.decode(_NO_SEQUENCE + payload, 0, 0).pairs)


class PairList(list[bytes], FramedRecords):
    """Records of pairs that were encoded one by one."""

    def encode_frames(self, first: int) -> bytes:
        """Return the records as D frames numbered from *first*."""
        head = _SEQUENCE.pack
        return b"".join(
            part
            for number, payload in enumerate(self, first)
            for part in (head(_KIND, number), payload)
        )


class PairRecords(Records):
    """Records of pairs of at least one plain line.

    Each record is: the bytes of *around[0]*, the line's length and the line, *around[1]*, the
    offset's length and the offset, *around[2]*. *offsets* are decimal, separated by commas; *lines*
    are separated by LF.
    """

    __slots__ = ("_count", "_head", "_lines", "_middle", "_offsets", "_tail")

    def __init__(
        self, around: tuple[bytes, bytes, bytes], offsets: bytes, lines: bytes, count: int
    ) -> None:
        self._head, self._middle, self._tail = around  # the bytes that all records share
        self._offsets = offsets  # decimal, separated by commas
        self._lines = lines  # without their ends, separated by LF
        self._count = count  # of the records

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        return list(self)[index]

    def __iter__(self) -> Iterator[bytes]:
        pack = LENGTH.pack
        for line, at in zip(self._lines.split(b"\n"), self._offsets.split(b","), strict=True):
            yield b"".join(
                (self._head, pack(len(line)), line, self._middle, pack(len(at)), at, self._tail)
            )

    @property
    def size(self) -> int:
        """Bytes that they take in a batch, compared with `RUN_BYTES`."""
        same = EVENT_HEAD + len(self._head) + len(self._middle) + len(self._tail) + 2 * LENGTH.size
        # offsets and lines have a separator between two records each
        return self._count * same + len(self._offsets) + len(self._lines) - 2 * (self._count - 1)

    def encode_frames(self, first: int) -> bytes:
        """Return the records as D frames numbered from *first*.

        Raises ValueError if lines or offsets are not as many as counted.
        """
        lines, offsets = self._lines.split(b"\n"), self._offsets.split(b",")
        if not self._count == len(lines) == len(offsets):
            raise ValueError("not as many lines as counted")

        # the eight parts of each frame; the tail of one and the head of the next are one part
        parts: list[bytes] = [
            self._tail + _KIND,
            b"",
            self._head,
            b"",
            b"",
            self._middle,
            b"",
            b"",
        ] * self._count
        parts[0] = _KIND
        parts[1::8] = packed_numbers(range(first, first + self._count))
        parts[3::8] = packed_numbers(list(map(len, lines)))
        parts[4::8] = lines
        parts[6::8] = packed_numbers(list(map(len, offsets)))
        parts[7::8] = offsets
        parts.append(self._tail)

        return b"".join(parts)


class PairEncoder:
    """Encodes the lines of one file as pairs."""

    chunk_bytes = longest_line = CHUNK_BYTES

    def __init__(self, fields: Sequence[Pair], host: str, path: str, origin: str) -> None:
        """Put *fields* into each record: the input's labels, flattened (`flatten_labels`)."""
        self._form = _PairForm([(HOST, host), (FILE, path), (ORIGIN, origin), *fields])

    def encode_chunk(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, or for its beginning if they would be too many."""
        return cut_lines(chunk, self._form, previous, read_ms)


class _PairForm:
    """The form of pairs, for `cut_lines`."""

    def __init__(self, same: Sequence[Pair]) -> None:
        """Put *same*, the pairs that all lines share, into each record."""
        self._same = list(same)

        # a record of an empty line and offset, cut where lines and offsets go
        whole = encode_pairs([(LINE, ""), (OFFSET, ""), *same])
        head = LENGTH.size + LENGTH.size + len(LINE)
        middle = head + LENGTH.size + LENGTH.size + len(OFFSET)
        # the bytes before the line, between line and offset, and after the offset
        self._around = (
            whole[:head],
            whole[head + LENGTH.size : middle],
            whole[middle + LENGTH.size :],
        )

    def encode_lines(self, lines: PlainLines) -> PairRecords:
        """Return *lines* as records."""
        data = lines.data[lines.at : lines.end]
        offsets, count, _ = place_lines(data, lines.start, lines.events)
        return PairRecords(self._around, offsets, data[:-1], count)

    def encode_part(self, part: LinePart) -> bytes:
        """Return one line, or a part of one, as a record."""
        # what differs from a plain line comes last
        pairs = [(LINE, part.message), (OFFSET, str(part.start)), *self._same]
        if part.eol != "\n":
            pairs.append((EOL, part.eol))
        if part.flags:
            pairs.append((FLAGS, ",".join(part.flags)))
        if part.original is not None:
            pairs.append((ORIGINAL, part.original))
        return encode_pairs(pairs)

    def new_part_list(self) -> list[bytes]:
        """Return an empty list for records of pairs."""
        return PairList()
