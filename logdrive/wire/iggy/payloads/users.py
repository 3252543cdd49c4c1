"""Layouts of users and permissions: requests 31 to 37 and their replies."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final, TypeVar

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.limits import PERMISSIONS_BYTES
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.fields import BOOL, TEXT8, U32, U64, flagged, to_end
from logdrive.wire.iggy.payloads.naming import IDENTIFIER
from logdrive.wire.iggy.payloads.options import NO_GIVEN_OPTIONS, NO_TOLD_OPTIONS
from logdrive.wire.iggy.payloads.shapes import FieldCodec, Shape, ShapeEntry, Simple, at
from logdrive.wire.iggy.permissions import (
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from logdrive.wire.iggy.replies import UserDetails, UserInfo
from logdrive.wire.iggy.revision import Revision

T = TypeVar("T")
_ACTIVE, _INACTIVE = 1, 2


def _chain(item: FieldCodec[T]) -> FieldCodec[tuple[T, ...]]:
    """Return the codec of items with a byte 1 before each, and a byte 0 behind the last one."""

    def read(reader: PayloadReader) -> tuple[T, ...]:
        items = []
        while BOOL.read(reader):
            items.append(item.read(reader))
        return tuple(items)

    def write(values: tuple[T, ...], writer: PayloadWriter) -> None:
        for value in values:
            writer.u8(1)
            item.write(value, writer)
        writer.u8(0)

    return Simple(read, write)


def _switches(declared: Callable[..., Any]) -> tuple[ShapeEntry, ...]:
    """Return the entries of all fields of a class that are true or false, in their order."""
    return tuple(at(field.name, BOOL) for field in fields(declared) if field.type is bool)  # type: ignore[arg-type]


_TOPIC: Final = Shape(TopicPermissions, at("topic", U32), *_switches(TopicPermissions))
_STREAM: Final = Shape(
    StreamPermissions,
    at("stream", U32),
    *_switches(StreamPermissions),
    at("topics", _chain(_TOPIC)),
)
_PERMISSIONS: Final = Shape(
    Permissions,
    at("everywhere", Shape(GlobalPermissions, *_switches(GlobalPermissions))),
    at("streams", _chain(_STREAM)),
)


def _read_sized(reader: PayloadReader) -> Permissions:
    size = reader.u32()
    if size > PERMISSIONS_BYTES:
        raise ValueError(f"permissions of {size} bytes; at most {PERMISSIONS_BYTES} are taken")
    own = PayloadReader(reader.revision, reader.view(size))
    permissions = _PERMISSIONS.read(own)
    if own.left:
        raise ValueError(f"{own.left} bytes behind the permissions")
    return permissions


def _write_sized(value: Permissions, writer: PayloadWriter) -> None:
    own = writer.nested()
    _PERMISSIONS.write(value, own)
    data = own.joined()
    writer.u32(len(data))
    writer.put(data)


_SIZED: Final[FieldCodec[Permissions]] = Simple(_read_sized, _write_sized)
_GIVEN: Final = flagged(_SIZED)


def _read_told(reader: PayloadReader) -> Permissions | None:
    if BOOL.read(reader):
        return _read_sized(reader)
    reader.view(3)  # four bytes of zero stand for none
    return None


def _write_told(value: Permissions | None, writer: PayloadWriter) -> None:
    if value is None:
        writer.u32(0)
    else:
        _GIVEN.write(value, writer)


def _read_status(reader: PayloadReader) -> bool:
    status = reader.u8()
    if status not in {_ACTIVE, _INACTIVE}:
        raise ValueError(f"a user's status {status}")
    return status == _ACTIVE


_STATUS: Final[FieldCodec[bool]] = Simple(
    _read_status, lambda value, writer: writer.u8(_ACTIVE if value else _INACTIVE)
)
_USER: Final = at("user", IDENTIFIER)
_OPTIONS: Final = at(None, NO_GIVEN_OPTIONS, first=Revision.R3)

USER_REQUESTS: Final = (
    Shape(requests.GetUser, _USER),
    Shape(requests.GetUsers),
    Shape(
        requests.CreateUser,
        at("name", TEXT8),
        at("password", TEXT8),
        at("active", _STATUS),
        at("permissions", _GIVEN),
        _OPTIONS,
    ),
    Shape(requests.DeleteUser, _USER),
    Shape(
        requests.UpdateUser,
        _USER,
        at("name", flagged(TEXT8)),
        at("active", flagged(_STATUS)),
        _OPTIONS,
    ),
    Shape(requests.UpdatePermissions, _USER, at("permissions", _GIVEN)),
    Shape(requests.ChangePassword, _USER, at("current", TEXT8), at("new", TEXT8)),
)

USER: Final = Shape(
    UserInfo,
    at("id", U32),
    at("created_us", U64),
    at("active", _STATUS),
    at("name", TEXT8),
    at(None, NO_TOLD_OPTIONS, first=Revision.R3),
)
USERS: Final = to_end(USER)
USER_DETAILS: Final = Shape(
    UserDetails,
    at("user", USER),
    at("permissions", Simple(_read_told, _write_told)),
)
