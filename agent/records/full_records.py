"""Bytes of a file -> full records: one self-contained event a line, for peers that know nothing of
sources (rule R1).

All but two things are the same in each line's record, so a run of them is kept as these two, the
messages and the offsets, and written out only as the frames that are sent. No Python runs for a
line (`logdrive.kernel`): about 0.3 µs each, from the file's bytes to its frame, of 188 bytes. What
is not plain takes a slower way (`agent.records.lines`).
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, overload

import orjson

from agent.records.batch import Records, Run
from agent.records.blocks import LinePart
from agent.records.chunk import TextChunk
from agent.records.lines import cut_lines
from logdrive.kernel.loops import full_frames
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import RUN_BYTES

_SEPARATOR: Final = b"\x7f"
"""Stands between messages: JSON leaves it as it is.

Text that has one itself takes the slower way.
"""
_MESSAGE: Final = b'},"message":"'
_END: Final = b'"}'


class FullRecords(Records):
    """Full records of plain lines, at least one.

    *prefix* ends where each one's offset goes; *offsets* are these in decimal, commas between them;
    *messages* are the lines as JSON has them, without quotes, separators between them.
    """

    __slots__ = ("_count", "_messages", "_offsets", "_prefix")

    def __init__(self, prefix: bytes, offsets: bytes, messages: bytes, count: int) -> None:
        self._prefix, self._offsets, self._messages, self._count = prefix, offsets, messages, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        return list(self)[index]

    def __iter__(self) -> Iterator[bytes]:
        for at, message in zip(*self._parts(), strict=True):
            yield b"".join((self._prefix, at, _MESSAGE, message, _END))

    @property
    def size(self) -> int:
        """What they weigh against `RUN_BYTES`."""
        same = EVENT_HEAD + len(self._prefix) + len(_MESSAGE) + len(_END)
        return self._count * same + len(self._offsets) + len(self._messages) - 2 * (self._count - 1)

    def frames(self, first: int) -> bytes:
        """Return them as J frames numbered from *first*."""
        return full_frames(
            first,
            self._count,
            self._prefix,
            self._offsets,
            _MESSAGE,
            self._messages,
            _SEPARATOR,
            _END,
        )

    def _parts(self) -> tuple[list[bytes], list[bytes]]:
        return self._offsets.split(b","), self._messages.split(_SEPARATOR)


class FullEncoder:
    """Full records. *now_ms* gives `@timestamp`: when the line was read."""

    def __init__(
        self, common: dict[str, Any], path: str, origin: str, now_ms: Callable[[], int]
    ) -> None:
        fields = orjson.dumps(common)[1:-1]
        self._fields = b"," + fields if fields else b""
        self._log = b',"log":{"file":{"path":%b},"origin":%b,"offset":' % (
            orjson.dumps(path),
            orjson.dumps(origin),
        )
        self._now_ms = now_ms

    def encode(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, or, where they would be too many, for its beginning."""
        return cut_lines(chunk, _Full(self._prefix()), previous, read_ms)

    def _prefix(self) -> bytes:
        moment = datetime.fromtimestamp(self._now_ms() / 1000, UTC).isoformat(
            timespec="milliseconds"
        )
        return b'{"@timestamp":"%bZ"%b%b' % (
            moment.removesuffix("+00:00").encode(),
            self._fields,
            self._log,
        )


class _Full:
    """Full records that begin with *prefix*, as `cut_lines` asks for them."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix

    def records(self, data: bytes, offsets: bytes, count: int) -> FullRecords | None:
        """Return the lines *data* as records; None where some differ from a plain line, or all are
        too much for a run.
        """
        # the longer search takes twenty times as long
        if _SEPARATOR in data or (b"\r" in data and b"\r\n" in data):
            return None
        try:
            text = data.replace(b"\n", _SEPARATOR).decode()
        except UnicodeDecodeError:
            return None
        messages = orjson.dumps(text)[1:-2]  # a copy without the much memory that orjson reserves
        records = FullRecords(self._prefix, offsets, messages, count)
        return records if records.size <= RUN_BYTES else None

    def record(self, piece: LinePart) -> bytes:
        """Return one line, or a part of one, as a full record; `log` names what differs from a
        plain line.
        """
        log: dict[str, Any] = {}
        if piece.eol != "\n":
            log["eol"] = piece.eol
        if piece.flags:
            log["flags"] = list(piece.flags)
        extra = b"," + orjson.dumps(log)[1:-1] if log else b""
        event = (
            b""
            if piece.original is None
            else b',"event":{"original_base64":"%b"}' % piece.original.encode()
        )
        return b'%b%d%b},"message":%b%b}' % (
            self._prefix,
            piece.start,
            extra,
            orjson.dumps(piece.message),
            event,
        )

    def singles(self) -> list[bytes]:
        """Return an empty list for such records."""
        return []
