"""Bytes of a file -> the pairs of Lumberjack v1's D frames: one self-contained event a line (rules
R1, R2).

Each event has `line`, `offset`, `host` and `file`, then the pairs that are the same for all lines
of a file (`agent.records.flatten`). `log.eol` names a line end other than LF, `log.flags` the parts
of a long line, `event.original_base64` has bytes that are not UTF-8.

A record here is a D frame without its version, type and sequence number. Only lines and offsets
differ from one to the next, so a run of plain lines is kept as these two and is written out only as
the frames that are sent: about 0.5 µs for a line of 188 bytes, from the file's bytes to its frame,
and no object for it but the parts of one join.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final, overload

from agent.records.batch import FramedRecords, Records, Run
from agent.records.blocks import LinePart
from agent.records.chunk import TextChunk
from agent.records.flatten import EOL, FILE, FLAGS, HOST, LINE, OFFSET, ORIGIN, ORIGINAL
from agent.records.lines import cut_lines
from logdrive.kernel.plain import packed_numbers
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import RUN_BYTES
from logdrive.wire.lumberjack.frames import LENGTH, KeyValueFrame

_KIND: Final = b"1D"
_SEQUENCE: Final = struct.Struct("!2sI")
_NO_SEQUENCE: Final = _KIND + bytes(LENGTH.size)

Pair = tuple[str, str]


def body(pairs: Sequence[Pair]) -> bytes:
    """Return a D frame of *pairs* without its version, type and sequence number."""
    return KeyValueFrame(0, tuple(pairs)).encode()[_SEQUENCE.size :]


def pairs_of(payload: bytes) -> dict[str, str]:
    """Return the pairs of a body."""
    return dict(KeyValueFrame.decode(_NO_SEQUENCE + payload, 0, 0).pairs)


class PairList(list[bytes], FramedRecords):
    """Bodies made one by one."""

    def frames(self, first: int) -> bytes:
        """Return them as D frames numbered from *first*."""
        head = _SEQUENCE.pack
        return b"".join(
            part
            for number, payload in enumerate(self, first)
            for part in (head(_KIND, number), payload)
        )


class PairRecords(Records):
    """Bodies of plain lines, at least one.

    *head* is what stands before a line's length, *middle* what stands between a line and its
    offset's length, *tail* what follows. *offsets* are in decimal, commas between them; *lines*
    have LF between them.
    """

    __slots__ = ("_count", "_head", "_lines", "_middle", "_offsets", "_tail")

    def __init__(
        self, around: tuple[bytes, bytes, bytes], offsets: bytes, lines: bytes, count: int
    ) -> None:
        self._head, self._middle, self._tail = around
        self._offsets, self._lines, self._count = offsets, lines, count

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
        """What they weigh against `RUN_BYTES`."""
        same = EVENT_HEAD + len(self._head) + len(self._middle) + len(self._tail) + 2 * LENGTH.size
        return self._count * same + len(self._offsets) + len(self._lines) - 2 * (self._count - 1)

    def frames(self, first: int) -> bytes:
        """Return them as D frames numbered from *first*.

        Raises ValueError where they are not as many as counted.
        """
        lines, offsets = self._lines.split(b"\n"), self._offsets.split(b",")
        if not self._count == len(lines) == len(offsets):
            raise ValueError("not as many lines as counted")
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
    """Pairs of a file's lines.

    *fields* are those that an operator chose, flat (`agent.records.flatten`).
    """

    def __init__(self, fields: Sequence[Pair], host: str, path: str, origin: str) -> None:
        self._form = _Pairs([(HOST, host), (FILE, path), (ORIGIN, origin), *fields])

    def encode(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, or, where they would be too many, for its beginning."""
        return cut_lines(chunk, self._form, previous, read_ms)


class _Pairs:
    """What `cut_lines` asks for; *same* are the pairs that all lines have."""

    def __init__(self, same: Sequence[Pair]) -> None:
        self._same = list(same)
        whole = body([(LINE, ""), (OFFSET, ""), *same])
        head = LENGTH.size + LENGTH.size + len(LINE)
        middle = head + LENGTH.size + LENGTH.size + len(OFFSET)
        self._around = (
            whole[:head],
            whole[head + LENGTH.size : middle],
            whole[middle + LENGTH.size :],
        )

    def records(self, data: bytes, offsets: bytes, count: int) -> PairRecords | None:
        """Return the lines *data* as bodies; None where some differ from a plain line, or all are
        too much for a run.
        """
        if b"\r" in data and b"\r\n" in data:  # the longer search takes twenty times as long
            return None
        try:
            data.decode()
        except UnicodeDecodeError:
            return None
        records = PairRecords(self._around, offsets, data[:-1], count)
        return records if records.size <= RUN_BYTES else None

    def record(self, piece: LinePart) -> bytes:
        """Return one line, or a part of one, as a body."""
        pairs = [(LINE, piece.message), (OFFSET, str(piece.start)), *self._same]
        if piece.eol != "\n":
            pairs.append((EOL, piece.eol))
        if piece.flags:
            pairs.append((FLAGS, ",".join(piece.flags)))
        if piece.original is not None:
            pairs.append((ORIGINAL, piece.original))
        return body(pairs)

    def singles(self) -> list[bytes]:
        """Return an empty list for such bodies."""
        return PairList()
