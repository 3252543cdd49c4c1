"""The layout of a class in every revision: which fields, in which order, and how each is encoded.

    Shape(
        IggyCreateStream,
        at("id", CHOSEN_ID, last=Revision.R2A),
        at("name", NAME),
    )

One shape encodes and decodes, and is a field itself in the shape of another class. A field that a
revision does not have takes its default.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.revision import Revision

T = TypeVar("T")


class FieldCodec(Protocol[T]):
    """How one value is encoded; both methods raise ValueError."""

    def read(self, reader: PayloadReader) -> T:
        """Read the value."""
        ...

    def write(self, value: T, writer: PayloadWriter) -> None:
        """Write the value."""
        ...


@dataclass(frozen=True, slots=True)
class Simple(Generic[T]):
    """A codec of two functions."""

    read: Callable[[PayloadReader], T]
    write: Callable[[T, PayloadWriter], None]


@dataclass(frozen=True, slots=True)
class ShapeEntry:
    """One field of a shape, in the revisions from *first* to *last*.

    *name* is None for a field that is no attribute of the class: what is read is dropped, and
    *codec* writes None.
    """

    name: str | None
    codec: FieldCodec[Any]
    first: Revision
    last: Revision


def at(
    name: str | None,
    codec: FieldCodec[Any],
    *,
    first: Revision = Revision.R0,
    last: Revision = Revision.R3,
) -> ShapeEntry:
    """Return the entry of the attribute *name*."""
    return ShapeEntry(name, codec, first, last)


class Shape(Generic[T]):
    """The layouts of the class *make*; a `FieldCodec` of its instances."""

    def __init__(self, make: type[T], *entries: ShapeEntry) -> None:
        self.make = make
        self._layouts = {
            revision: tuple(
                (entry.name, entry.codec)
                for entry in entries
                if entry.first <= revision <= entry.last
            )
            for revision in Revision
        }

    def read(self, reader: PayloadReader) -> T:
        """Read an instance. Raises ValueError."""
        values: dict[str, Any] = {}
        for name, codec in self._layouts[reader.revision]:
            value = codec.read(reader)
            if name is not None:
                values[name] = value
        return self.make(**values)

    def write(self, value: T, writer: PayloadWriter) -> None:
        """Write an instance. Raises ValueError."""
        for name, codec in self._layouts[writer.revision]:
            codec.write(None if name is None else getattr(value, name), writer)
