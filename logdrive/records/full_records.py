"""Encodes bytes of a file as full records, one self-contained event a line (rule R1).

Peers that know nothing of sources get them. The records of one run differ only in message and
offset, so a run keeps its lines as they were read, and encodes them only when its frames are sent.
No Python code runs for a single line (`logdrive.kernel`): about 0.1 µs for a line of 188 bytes,
from file to frame. Lines that are not plain are encoded one by one (`logdrive.records.lines`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, overload

import orjson

from logdrive.kernel.loops import line_events, line_frames
from logdrive.model.framing import EVENT_HEAD, frame_events, unframe_events
from logdrive.records.blocks import LinePart
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from logdrive.records.lines import PlainLines, cut_lines
from logdrive.records.runs import Records, Run

_MESSAGE: Final = b'},"message":"'
_END: Final = b'"}'


@dataclass(frozen=True, slots=True)
class FullRecords(Records):
    """Full records of at least one plain line."""

    prefix: bytes
    """What all records begin with, up to the offset."""

    lines: PlainLines
    """The lines."""

    def __len__(self) -> int:
        return self.lines.events

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        return list(self)[index]

    def __iter__(self) -> Iterator[bytes]:
        return iter(unframe_events(self.encode_events()))

    @property
    def size(self) -> int:
        """Bytes that they take in a batch, compared with `RUN_BYTES`."""
        same = EVENT_HEAD + len(self.prefix) + len(_MESSAGE) + len(_END)
        return self.lines.events * same + self.lines.written

    def encode_frames(self, first: int) -> bytes:
        """Return the records as J frames numbered from *first*."""
        data, at, end, start, count, written = self.lines
        return line_frames(first, count, self.prefix, _MESSAGE, _END, data, at, end, start, written)

    def encode_events(self) -> bytes:
        """Return the records as Pravega events, back to back: `size` bytes."""
        data, at, end, start, count, written = self.lines
        return line_events(count, self.prefix, _MESSAGE, _END, data, at, end, start, written)


def records_as_events(records: Sequence[bytes]) -> bytes:
    """Return *records*, full ones or others, as Pravega events, back to back.

    No Python code runs for a single record of `FullRecords`.
    """
    return records.encode_events() if isinstance(records, FullRecords) else frame_events(records)


class FullEncoder:
    """Encodes the lines of one file as full records."""

    chunk_bytes = longest_line = CHUNK_BYTES

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

    def encode_lines(self, lines: PlainLines) -> FullRecords:
        """Return *lines* as records."""
        return FullRecords(self._prefix, lines)

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
