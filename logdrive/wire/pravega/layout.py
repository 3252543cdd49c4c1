"""The layouts of messages, and of records in lists: from a declared class to bytes and back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

from logdrive.model.framing import Part
from logdrive.wire.pravega.fields import Kind, ShortPayloadError, kind_of

C = TypeVar("C")
M = TypeVar("M", bound="Message")


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of the class *make*, in wire order."""

    make: Callable[..., Any]  # the class
    kinds: tuple[tuple[str, Kind[Any]], ...]  # name and codec of each field

    def read(self, payload: memoryview, at: int = 0) -> tuple[Any, int]:
        """Return the value at offset *at*, and the offset behind it. Raises ValueError."""
        values: dict[str, Any] = {}
        for name, kind in self.kinds:
            # this field and those after it take their defaults
            if kind.optional and at >= len(payload):
                break
            try:
                values[name], at = kind.read(payload, at)
            except ShortPayloadError as error:
                raise ShortPayloadError(f"{name}: {error}") from error
        return self.make(**values), at

    def write(self, value: Any, parts: list[Part]) -> None:
        """Add the encoded fields to *parts*."""
        for name, kind in self.kinds:
            kind.write(getattr(value, name), parts)


def layout_of(declared: type[C], order: Sequence[str] = ()) -> Layout:
    """Return the layout of a dataclass that is declared with the aliases of `fields`.

    *order* names the fields in wire order, if that is not the order of declaration.
    """
    hints = get_type_hints(declared, include_extras=True)
    names = order or [entry.name for entry in fields(declared)]  # type: ignore[arg-type]
    return Layout(declared, tuple((name, kind_of(hints[name])) for name in names))


def record_kind(declared: type[C]) -> Kind[C]:
    """Return the codec of a record in a message: its fields in order, without a length."""
    layout = layout_of(declared)
    return Kind(layout.read, layout.write)


class Message:
    """The content of one frame; the decorator `message` makes the subclasses.

    Many have the same fields: *request_id* pairs an answer with its request, *token* is a
    delegation token, "" without authorization, *segment* a segment's full name, *writer* a writer's
    id, and *stack_trace* says where a Java server failed. Offsets and lengths are in bytes.
    """

    __slots__ = ()
    code: ClassVar[int]
    """The message code in the frame's head."""
    layout: ClassVar[Layout]
    """The layout for peers of our own wire version."""
    older: ClassVar[tuple[int, Layout] | None] = None
    """A wire version, and the layout that peers below it use."""

    @classmethod
    def layout_for(cls, version: int) -> Layout:
        """Return the layout that a peer of wire *version* reads and writes."""
        if cls.older is not None and version < cls.older[0]:
            return cls.older[1]
        return cls.layout


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def message(code: int, *, below: int = 0, was: Sequence[str] = ()) -> Callable[[type[M]], type[M]]:
    """Make the decorated class the frozen dataclass of the message with the code *code*.

    For peers below the wire version *below*, its fields are those that *was* names, in that order.
    """

    def decorate(declared: type[M]) -> type[M]:
        message_type = dataclass(frozen=True, slots=True)(declared)
        message_type.code = code
        message_type.layout = layout_of(message_type)
        message_type.older = (below, layout_of(message_type, was)) if below else None
        return message_type

    return decorate
