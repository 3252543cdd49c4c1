"""Configurations of streams and basins: what is given, what it means, and its JSON.

See docs/protocols/s2.md#configuration. A configuration as given has None where it says nothing.
What such a field means is decided once, when a stream is created: `S2StreamConfig.resolved`. In a
patch an absent field means "as it is", and null "what it would be if nothing were given".
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from logdrive.wire.s2.documents import decode_document
from logdrive.wire.s2.errors import S2Error, bad_json, invalid
from logdrive.wire.s2.limits import U64_MAX


class TimestampingMode(Enum):
    """Where a record's time comes from."""

    CLIENT_PREFER = "client-prefer"
    CLIENT_REQUIRE = "client-require"
    ARRIVAL = "arrival"


class Cipher(Enum):
    """How the records of a stream are encrypted."""

    AEGIS_256 = "aegis-256"
    AES_256_GCM = "aes-256-gcm"


class RetentionPeriod(msgspec.Struct, frozen=True):
    """For how long records are kept: *age* in seconds, None for ever."""

    age: int | None


DEFAULT_RETENTION: Final = RetentionPeriod(7 * 24 * 3600)


class ResolvedStreamConfig(msgspec.Struct, frozen=True):
    """A stream's configuration, in which nothing is left open."""

    storage_class: str = "express"
    retention: RetentionPeriod = DEFAULT_RETENTION
    mode: TimestampingMode = TimestampingMode.CLIENT_PREFER
    uncapped: bool = False
    delete_on_empty_seconds: int = 0  # 0: an empty stream is kept

    def document(self) -> dict[str, object]:
        """Return the configuration as JSON has it."""
        return self.given().document()

    def given(self) -> "S2StreamConfig":
        """Return the same as a configuration in which each field is given."""
        return S2StreamConfig(**msgspec.structs.asdict(self))


SYSTEM_DEFAULTS: Final = ResolvedStreamConfig()


class S2StreamConfig(msgspec.Struct, frozen=True):
    """A stream's configuration as given; None: not given."""

    storage_class: str | None = None
    retention: RetentionPeriod | None = None
    mode: TimestampingMode | None = None
    uncapped: bool | None = None
    delete_on_empty_seconds: int | None = None

    def resolved(self, basin: "S2StreamConfig | None" = None) -> ResolvedStreamConfig:
        """Return what the configuration means in a basin with these defaults."""
        fields = msgspec.structs.asdict(SYSTEM_DEFAULTS)
        for layer in (basin, self):
            if layer is not None:
                fields |= _given(layer)
        return ResolvedStreamConfig(**fields)

    def patched(self, patch: "StreamPatch") -> "S2StreamConfig":
        """Return the configuration after *patch*; a field set back is None."""
        return msgspec.structs.replace(self, **patch.changes)

    def document(self) -> dict[str, object]:
        """Return the configuration as JSON has it, without what is not given."""
        document: dict[str, object] = {}
        if self.storage_class is not None:
            document["storage_class"] = self.storage_class
        if self.retention is not None:
            age = self.retention.age
            document["retention_policy"] = {"infinite": {}} if age is None else {"age": age}
        timestamping: dict[str, object] = {}
        if self.mode is not None:
            timestamping["mode"] = self.mode.value
        if self.uncapped is not None:
            timestamping["uncapped"] = self.uncapped
        if timestamping:
            document["timestamping"] = timestamping
        if self.delete_on_empty_seconds is not None:
            document["delete_on_empty"] = {"min_age_secs": self.delete_on_empty_seconds}
        return document


class StreamPatch(msgspec.Struct, frozen=True):
    """What changes in a `S2StreamConfig`: new values by field; None sets a field back."""

    changes: dict[str, Any] = {}


class BasinConfig(msgspec.Struct, frozen=True):
    """A basin's configuration: the defaults of its streams, and when streams are created."""

    default_stream_config: S2StreamConfig = S2StreamConfig()
    stream_cipher: Cipher | None = None
    create_stream_on_append: bool = False
    create_stream_on_read: bool = False

    def patched(self, patch: "BasinPatch") -> "BasinConfig":
        """Return the configuration after *patch*."""
        changed = msgspec.structs.replace(self, **patch.changes)
        if patch.default_stream_config is None:
            return changed
        defaults = self.default_stream_config.patched(patch.default_stream_config)
        return msgspec.structs.replace(changed, default_stream_config=defaults)

    def document(self) -> dict[str, object]:
        """Return the configuration as JSON has it."""
        return {
            "default_stream_config": self.default_stream_config.document() or None,
            "stream_cipher": self.stream_cipher and self.stream_cipher.value,
            "create_stream_on_append": self.create_stream_on_append,
            "create_stream_on_read": self.create_stream_on_read,
        }


class BasinPatch(msgspec.Struct, frozen=True):
    """What changes in a `BasinConfig`: new values by field, and within the streams' defaults."""

    changes: dict[str, Any] = {}
    default_stream_config: StreamPatch | None = None


# The shapes in JSON


class _Infinite(msgspec.Struct):
    pass


class _Retention(msgspec.Struct):
    age: int | UnsetType = UNSET
    infinite: _Infinite | UnsetType = UNSET


class _Timestamping(msgspec.Struct):
    mode: TimestampingMode | UnsetType | None = UNSET
    uncapped: bool | UnsetType | None = UNSET


class _DeleteOnEmpty(msgspec.Struct):
    min_age_secs: int | UnsetType | None = UNSET


class StreamConfigShape(msgspec.Struct):
    """A stream's configuration or a patch as JSON has it; read it with `stream_config_of`."""

    storage_class: str | UnsetType | None = UNSET
    retention_policy: _Retention | UnsetType | None = UNSET
    timestamping: _Timestamping | UnsetType | None = UNSET
    delete_on_empty: _DeleteOnEmpty | UnsetType | None = UNSET


class BasinConfigShape(msgspec.Struct):
    """A basin's configuration or a patch as JSON has it; read it with `basin_config_of`."""

    default_stream_config: StreamConfigShape | UnsetType | None = UNSET
    stream_cipher: Cipher | UnsetType | None = UNSET
    create_stream_on_append: bool | UnsetType | None = UNSET
    create_stream_on_read: bool | UnsetType | None = UNSET


_STREAM: Final = msgspec.json.Decoder(StreamConfigShape)
_BASIN: Final = msgspec.json.Decoder(BasinConfigShape)


def parse_stream_config(
    data: bytes | str, error: Callable[[str], S2Error] = bad_json
) -> S2StreamConfig:
    """Return the configuration in *data*, a body or the header `s2-stream-config`.

    Raises *error* for another shape, and `S2Error`, 422, for a value that is not allowed; in a
    header (*error* is bad_header) both are *error*.
    """
    shape = decode_document(_STREAM, data, error)
    try:
        return stream_config_of(shape)
    except S2Error as failure:
        raise (failure if error is bad_json else error(failure.message)) from None


def parse_stream_patch(data: bytes) -> StreamPatch:
    """Return the patch in *data*; raise `S2Error`: bad_json, or 422 for a value not allowed."""
    return StreamPatch(_changes(decode_document(_STREAM, data)))


def parse_basin_config(data: bytes) -> BasinConfig:
    """Return the configuration in *data*; raise `S2Error` as `parse_stream_patch` does."""
    return basin_config_of(decode_document(_BASIN, data))


def parse_basin_patch(data: bytes) -> BasinPatch:
    """Return the patch in *data*; raise `S2Error` as `parse_stream_patch` does."""
    shape = decode_document(_BASIN, data)
    changes: dict[str, Any] = {}
    if shape.stream_cipher is not UNSET:
        changes["stream_cipher"] = shape.stream_cipher
    if shape.create_stream_on_append is not UNSET:
        changes["create_stream_on_append"] = bool(shape.create_stream_on_append)
    if shape.create_stream_on_read is not UNSET:
        changes["create_stream_on_read"] = bool(shape.create_stream_on_read)
    match shape.default_stream_config:
        case StreamConfigShape() as defaults:
            return BasinPatch(changes, StreamPatch(_changes(defaults)))
        case None:
            changes["default_stream_config"] = S2StreamConfig()
    return BasinPatch(changes)


def stream_config_of(shape: StreamConfigShape | UnsetType | None) -> S2StreamConfig:
    """Return the configuration that *shape* means, null as absent; raise `S2Error`, 422."""
    if not isinstance(shape, StreamConfigShape):
        return S2StreamConfig()
    return S2StreamConfig(**_changes(shape))


def basin_config_of(shape: BasinConfigShape | UnsetType | None) -> BasinConfig:
    """Return the configuration that *shape* means, null as absent; raise `S2Error`, 422."""
    if not isinstance(shape, BasinConfigShape):
        return BasinConfig()
    return BasinConfig(
        stream_config_of(shape.default_stream_config),
        shape.stream_cipher or None,
        shape.create_stream_on_append is True,
        shape.create_stream_on_read is True,
    )


def _given(config: S2StreamConfig) -> dict[str, Any]:
    return {k: v for k, v in msgspec.structs.asdict(config).items() if v is not None}


def _changes(shape: StreamConfigShape) -> dict[str, Any]:
    """Return the fields of `S2StreamConfig` that *shape* names, None for null."""
    changes: dict[str, Any] = {}
    if shape.storage_class is not UNSET:
        changes["storage_class"] = shape.storage_class
    if shape.retention_policy is not UNSET:
        changes["retention"] = shape.retention_policy and _retention(shape.retention_policy)
    match shape.timestamping:
        case _Timestamping(mode=mode, uncapped=uncapped):
            if mode is not UNSET:
                changes["mode"] = mode
            if uncapped is not UNSET:
                changes["uncapped"] = uncapped
        case None:
            changes |= {"mode": None, "uncapped": None}
    match shape.delete_on_empty:
        case _DeleteOnEmpty(min_age_secs=seconds):
            if seconds is not UNSET:
                changes["delete_on_empty_seconds"] = _seconds(seconds, "min_age_secs")
        case None:
            changes["delete_on_empty_seconds"] = None
    return changes


def _retention(shape: _Retention) -> RetentionPeriod:
    if (shape.age is UNSET) == (shape.infinite is UNSET):
        raise bad_json('retention_policy is {"age": SECONDS} or {"infinite": {}}')
    if shape.age is UNSET:
        return RetentionPeriod(None)
    if shape.age == 0:
        raise invalid("retention_policy.age is at least 1 second")
    return RetentionPeriod(_seconds(shape.age, "age"))


def _seconds(number: int | None, name: str) -> int | None:
    if number is not None and not 0 <= number <= U64_MAX:
        raise bad_json(f"{name} is not from 0 to {U64_MAX}")
    return number
