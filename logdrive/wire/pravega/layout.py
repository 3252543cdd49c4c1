"""From a declared class to bytes and back: one layout for each message, and for each record that
lists hold.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, TypeVar, dataclass_transform, get_type_hints

from logdrive.model.framing import Part
from logdrive.wire.pravega.fields import Kind, ShortPayloadError, kind_of

C = TypeVar("C")
M = TypeVar("M", bound="Message")


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of *make* in wire order."""

    make: Callable[..., Any]
    kinds: tuple[tuple[str, Kind[Any]], ...]

    def read(self, payload: memoryview, at: int = 0) -> tuple[Any, int]:
        """Return what starts at *at*, and the place after it. Raises ValueError."""
        values: dict[str, Any] = {}
        for name, kind in self.kinds:
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


def layout_of(made: type[C], order: Sequence[str] = ()) -> Layout:
    """Return the layout of a class declared with the aliases of `fields`; *order* names its fields
    where it differs.
    """
    hints = get_type_hints(made, include_extras=True)
    names = order or [entry.name for entry in fields(made)]  # type: ignore[arg-type]
    return Layout(made, tuple((name, kind_of(hints[name])) for name in names))


def record_kind(made: type[C]) -> Kind[C]:
    """Return the kind of a record inside a message: its fields in order, and no length of its
    own.
    """
    layout = layout_of(made)
    return Kind(layout.read, layout.write)


class Message:
    """One frame's content; made by `message`."""

    __slots__ = ()
    code: ClassVar[int]
    layout: ClassVar[Layout]
    older: ClassVar[tuple[int, Layout] | None] = None
    """The layout that peers below a wire version use instead."""

    @classmethod
    def layout_for(cls, version: int) -> Layout:
        """Return the layout that a peer of wire *version* reads and writes."""
        if cls.older is not None and version < cls.older[0]:
            return cls.older[1]
        return cls.layout


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def message(code: int, *, below: int = 0, was: Sequence[str] = ()) -> Callable[[type[M]], type[M]]:
    """Make a class the frozen dataclass of message *code*; for peers *below* a wire version its
    fields are those that *was* names.
    """

    def decorate(declared: type[M]) -> type[M]:
        made = dataclass(frozen=True, slots=True)(declared)
        made.code = code
        made.layout = layout_of(made)
        made.older = (below, layout_of(made, was)) if below else None
        return made

    return decorate
