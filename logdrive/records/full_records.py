"""Encodes bytes of a file as full records, one self-contained event a line (rule R1).

Peers that know nothing of sources get them. The records of one run differ only in message and
offset, so a run is kept as these two and encoded only when its frames are sent. No Python code runs
for a single line (`logdrive.kernel`): about 0.3 µs for a line of 188 bytes, from file to frame.
Lines that are not plain are encoded one by one (`logdrive.records.lines`).
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, overload

import orjson

from logdrive.kernel.loops import full_frames
from logdrive.model.framing import EVENT_HEAD
from logdrive.model.limits import RUN_BYTES
from logdrive.records.blocks import LinePart
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from logdrive.records.lines import cut_lines
from logdrive.records.runs import Records, Run

_SEPARATOR: Final = b"\x7f"
"""DEL, the separator of messages: JSON does not escape it.

Lines that contain it are encoded one by one.
"""
_MESSAGE: Final = b'},"message":"'
_END: Final = b'"}'


class FullRecords(Records):
    """Full records of at least one plain line.

    Each record is *prefix*, its offset, and its message. *offsets* are decimal, separated by
    commas; *messages* are the lines escaped for JSON, without quotes, separated by `_SEPARATOR`.
    """

    __slots__ = ("_count", "_messages", "_offsets", "_prefix")

    def __init__(self, prefix: bytes, offsets: bytes, messages: bytes, count: int) -> None:
        self._prefix = prefix  # what all records begin with, up to the offset
        self._offsets = offsets  # decimal, separated by commas
        self._messages = messages  # escaped for JSON, separated by `_SEPARATOR`
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
        offsets, messages = self._offsets.split(b","), self._messages.split(_SEPARATOR)
        for offset, message in zip(offsets, messages, strict=True):
            yield b"".join((self._prefix, offset, _MESSAGE, message, _END))

    @property
    def size(self) -> int:
        """Bytes that they take in a batch, compared with `RUN_BYTES`."""
        same = EVENT_HEAD + len(self._prefix) + len(_MESSAGE) + len(_END)
        # offsets and messages have a separator between two records each
        return self._count * same + len(self._offsets) + len(self._messages) - 2 * (self._count - 1)

    def encode_frames(self, first: int) -> bytes:
        """Return the records as J frames numbered from *first*."""
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


class FullEncoder:
    """Encodes the lines of one file as full records."""

    longest_line = CHUNK_BYTES

    def __init__(
        self, common: dict[str, Any], path: str, origin: str, now_ms: Callable[[], int]
    ) -> None:
        """Put *common* into each record: host, fields and tags.

        *origin* is the origin id; *now_ms* returns the time for `@timestamp`, when the line was
        read, in milliseconds since the epoch.
        """
        fields = orjson.dumps(common)[1:-1]
        self._fields = b"," + fields if fields else b""  # *common* as JSON, without its braces
        # the rest of a prefix, up to the offset
        self._log = b',"log":{"file":{"path":%b},"origin":%b,"offset":' % (
            orjson.dumps(path),
            orjson.dumps(origin),
        )
        self._now_ms = now_ms

    def encode_chunk(self, chunk: TextChunk, previous: int, read_ms: int) -> list[Run]:
        """Return the runs for *chunk*, or for its beginning if they would be too many."""
        return cut_lines(chunk, _FullForm(self._prefix()), previous, read_ms)

    def encode_part(self, part: LinePart) -> bytes:
        """Return one event, or a part of one, as a full record."""
        return _FullForm(self._prefix()).encode_part(part)

    def _prefix(self) -> bytes:
        moment = datetime.fromtimestamp(self._now_ms() / 1000, UTC).isoformat(
            timespec="milliseconds"
        )
        return b'{"@timestamp":"%bZ"%b%b' % (
            moment.removesuffix("+00:00").encode(),
            self._fields,
            self._log,
        )


class _FullForm:
    """The form of full records that begin with *prefix*, for `cut_lines`."""

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix  # up to the offset

    def encode_lines(self, data: bytes, offsets: bytes, count: int) -> FullRecords | None:
        """Return *count* lines as records, None if some are not plain or all exceed a run."""
        # the search for one byte first: that for two takes twenty times as long
        if _SEPARATOR in data or (b"\r" in data and b"\r\n" in data):
            return None
        try:
            text = data.replace(b"\n", _SEPARATOR).decode()
        except UnicodeDecodeError:
            return None

        # the slice is a copy: orjson's own result holds more memory than it uses
        messages = orjson.dumps(text)[1:-2]
        records = FullRecords(self._prefix, offsets, messages, count)
        return records if records.size <= RUN_BYTES else None

    def encode_part(self, part: LinePart) -> bytes:
        """Return one line, or a part of one, as a full record.

        `log` names what differs from a plain line: `eol` and `flags`.
        """
        log: dict[str, Any] = {}
        if part.eol != "\n":
            log["eol"] = part.eol
        if part.flags:
            log["flags"] = list(part.flags)

        extra = b"," + orjson.dumps(log)[1:-1] if log else b""
        event = (
            b""
            if part.original is None
            else b',"event":{"original_base64":"%b"}' % part.original.encode()
        )
        return b'%b%d%b},"message":%b%b}' % (
            self._prefix,
            part.start,
            extra,
            orjson.dumps(part.message),
            event,
        )

    def new_part_list(self) -> list[bytes]:
        """Return an empty list for full records."""
        return []
