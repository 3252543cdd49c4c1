"""The same log as frames: what a pipeline of C tools is given, since it can't make frames."""

import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from logdrive.model import records
from logdrive.model.limits import BLOCK_TEXT_BYTES

VERSION = 1
"""Part of the cached files' names: raised when the frames change."""

_START = datetime(2025, 11, 21, 4, 40, tzinfo=UTC)
_EVENT = (
    b'{"@timestamp":"%b","host":{"name":"web-01.example.net"},'
    b'"log":{"file":{"path":"/var/log/nginx/access.log"},"offset":%d},"message":%b}'
)
_FULL = (
    b'{"@timestamp":"%b","host":{"name":"web-01.example.net"},'
    b'"agent":{"id":"8a7f3f0e-5c0e-4b63-9a4e-0d8a4f6f2b11","type":"logdrive","version":"0.1.0"},'
    b'"log":{"file":{"path":"/var/log/nginx/access.log"},"offset":%d},"message":%b,'
    b'"fields":{"service":"shop","environment":"production"},"tags":["nginx","access"]}'
)


def _framed(sequence: int, payload: bytes) -> bytes:
    return struct.pack("!2sII", b"2J", sequence & 0xFFFF_FFFF, len(payload)) + payload


def _one_a_line(log: Path, form: bytes) -> Iterator[bytes]:
    offset = 0
    with log.open("rb") as file:
        for number, line in enumerate(file):
            when = (_START + timedelta(microseconds=2500 * number)).isoformat(
                timespec="milliseconds"
            )[:23].encode() + b"Z"
            yield _framed(number + 1, form % (when, offset, orjson.dumps(line[:-1].decode())))
            offset += len(line)


def events(log: Path) -> Iterator[bytes]:
    """Yield one J frame a line with the five usual keys, some 360 bytes.

    The reference pipeline has such frames.
    """
    return _one_a_line(log, _EVENT)


def full(log: Path) -> Iterator[bytes]:
    """Yield one J frame a line as a full event with agent, fields and tags, some 520 bytes."""
    return _one_a_line(log, _FULL)


def blocks(log: Path) -> Iterator[bytes]:
    """Yield one J frame a 256 KiB of whole lines, as block records hold them."""
    data, start, number = log.read_bytes(), 0, 0
    while start < len(data):
        end = (
            len(data)
            if len(data) - start <= BLOCK_TEXT_BYTES
            else data.rindex(b"\n", start, start + BLOCK_TEXT_BYTES) + 1
        )
        text = data[start:end]
        number += 1
        yield _framed(number, records.block_record(start, end, text.count(b"\n"), text.decode()))
        start = end


FORMS: dict[str, Callable[[Path], Iterator[bytes]]] = {
    "json_frames": events,
    "full_frames": full,
    "block_frames": blocks,
}


def frame_file(log: Path, form: str) -> Path:
    """Return the file beside *log* that has it in *form*; it is written once and kept."""
    path = log.with_suffix(f".{form}-{VERSION}")
    if not path.exists():
        partial = path.with_suffix(".part")
        with partial.open("wb") as file:
            file.writelines(FORMS[form](log))
        partial.replace(path)
    return path
