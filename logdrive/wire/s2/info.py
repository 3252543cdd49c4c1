"""Requests and answers about basins and streams, as JSON.

See docs/protocols/s2.md#basins-and-streams.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
import orjson

from logdrive.wire.s2.configs import (
    BasinConfig,
    BasinConfigShape,
    Cipher,
    ResolvedStreamConfig,
    S2StreamConfig,
    StreamConfigShape,
    basin_config_of,
    stream_config_of,
)
from logdrive.wire.s2.documents import decode_document
from logdrive.wire.s2.errors import bad_json
from logdrive.wire.s2.names import check_basin, check_stream

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class BasinInfo(msgspec.Struct, frozen=True):
    """A basin. Times are in milliseconds since 1970; *deleted_ms*: when it was asked to go."""

    name: str
    created_ms: int
    location: str | None = None
    deleted_ms: int | None = None

    def document(self) -> dict[str, object]:
        """Return the basin as JSON has it."""
        return {
            "name": self.name,
            "location": self.location,
            "created_at": rfc3339(self.created_ms),
            "deleted_at": None if self.deleted_ms is None else rfc3339(self.deleted_ms),
            "state": "active" if self.deleted_ms is None else "deleting",
        }


class StreamInfo(msgspec.Struct, frozen=True):
    """A stream. Times are in milliseconds since 1970; *deleted_ms*: when it was asked to go."""

    name: str
    created_ms: int
    deleted_ms: int | None = None
    cipher: Cipher | None = None

    def document(self) -> dict[str, object]:
        """Return the stream as JSON has it."""
        return {
            "name": self.name,
            "created_at": rfc3339(self.created_ms),
            "deleted_at": None if self.deleted_ms is None else rfc3339(self.deleted_ms),
            "cipher": self.cipher and self.cipher.value,
        }


class CreateBasin(msgspec.Struct, frozen=True):
    """A request to create a basin; *location* is not looked at here."""

    basin: str
    config: BasinConfig
    location: str | None = None


class EnsureBasin(msgspec.Struct, frozen=True):
    """A request that a basin be there, with this configuration."""

    config: BasinConfig
    location: str | None = None


class CreateStream(msgspec.Struct, frozen=True):
    """A request to create a stream."""

    stream: str
    config: S2StreamConfig


class _CreateBasin(msgspec.Struct):
    basin: str
    config: BasinConfigShape | None = None
    location: str | None = None


class _EnsureBasin(msgspec.Struct):
    config: BasinConfigShape | None = None
    location: str | None = None


class _CreateStream(msgspec.Struct):
    stream: str
    config: StreamConfigShape | None = None


class _Basin(msgspec.Struct):
    name: str
    created_at: datetime
    location: str | None = None
    deleted_at: datetime | None = None


class _Stream(msgspec.Struct):
    name: str
    created_at: datetime
    deleted_at: datetime | None = None
    cipher: Cipher | None = None


class _Basins(msgspec.Struct):
    basins: list[_Basin]
    has_more: bool


class _Streams(msgspec.Struct):
    streams: list[_Stream]
    has_more: bool


_CREATE_BASIN: Final = msgspec.json.Decoder(_CreateBasin)
_ENSURE_BASIN: Final = msgspec.json.Decoder(_EnsureBasin)
_CREATE_STREAM: Final = msgspec.json.Decoder(_CreateStream)
_BASIN: Final = msgspec.json.Decoder(_Basin)
_STREAM: Final = msgspec.json.Decoder(_Stream)
_BASINS: Final = msgspec.json.Decoder(_Basins)
_STREAMS: Final = msgspec.json.Decoder(_Streams)


def parse_create_basin(data: bytes) -> CreateBasin:
    """Return the request in *data*; raise `S2Error`: bad_json, or 422 for a value not allowed."""
    read = decode_document(_CREATE_BASIN, data)
    check_basin(read.basin, bad_json)
    return CreateBasin(read.basin, basin_config_of(read.config), read.location)


def parse_ensure_basin(data: bytes) -> EnsureBasin:
    """Return the request in *data*, which may be empty; raise as `parse_create_basin` does."""
    read = decode_document(_ENSURE_BASIN, data or b"{}")
    return EnsureBasin(basin_config_of(read.config), read.location)


def parse_create_stream(data: bytes) -> CreateStream:
    """Return the request in *data*; raise as `parse_create_basin` does."""
    read = decode_document(_CREATE_STREAM, data)
    check_stream(read.stream, bad_json)
    return CreateStream(read.stream, stream_config_of(read.config))


def encode_info(info: BasinInfo | StreamInfo) -> bytes:
    """Return the body of an answer about one basin or stream."""
    return orjson.dumps(info.document())


def encode_basins(basins: Sequence[BasinInfo], *, has_more: bool) -> bytes:
    """Return the body of a page of a list of basins."""
    documents = [basin.document() for basin in basins]
    return orjson.dumps({"basins": documents, "has_more": has_more})


def encode_streams(streams: Sequence[StreamInfo], *, has_more: bool) -> bytes:
    """Return the body of a page of a list of streams."""
    documents = [stream.document() for stream in streams]
    return orjson.dumps({"streams": documents, "has_more": has_more})


def encode_config(config: BasinConfig | S2StreamConfig | ResolvedStreamConfig) -> bytes:
    """Return *config* as a body."""
    return orjson.dumps(config.document())


def parse_basin(data: bytes) -> BasinInfo:
    """Return the basin in an answer; raise `S2Error`, bad_json."""
    return _basin_info(decode_document(_BASIN, data))


def parse_stream(data: bytes) -> StreamInfo:
    """Return the stream in an answer; raise `S2Error`, bad_json."""
    return _stream_info(decode_document(_STREAM, data))


def parse_basins(data: bytes) -> tuple[list[BasinInfo], bool]:
    """Return a page of a list and whether there are more; raise `S2Error`, bad_json."""
    read = decode_document(_BASINS, data)
    return [_basin_info(basin) for basin in read.basins], read.has_more


def parse_streams(data: bytes) -> tuple[list[StreamInfo], bool]:
    """Return a page of a list and whether there are more; raise `S2Error`, bad_json."""
    read = decode_document(_STREAMS, data)
    return [_stream_info(stream) for stream in read.streams], read.has_more


def rfc3339(time_ms: int) -> str:
    """Return a time, given in milliseconds since 1970, as text, in UTC."""
    seconds, milliseconds = divmod(time_ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milliseconds:03}Z"


def epoch_ms(time: datetime) -> int:
    """Return *time*, UTC if it names no zone, in milliseconds since 1970."""
    aware = time if time.tzinfo else time.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MILLISECOND


def _basin_info(read: _Basin) -> BasinInfo:
    deleted = None if read.deleted_at is None else epoch_ms(read.deleted_at)
    return BasinInfo(read.name, epoch_ms(read.created_at), read.location, deleted)


def _stream_info(read: _Stream) -> StreamInfo:
    deleted = None if read.deleted_at is None else epoch_ms(read.deleted_at)
    return StreamInfo(read.name, epoch_ms(read.created_at), deleted, read.cipher)
