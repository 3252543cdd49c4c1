"""Hypothesis strategies for any message, made from the declaration of its class."""

from dataclasses import fields
from typing import Any, get_args, get_type_hints
from uuid import UUID

from hypothesis import strategies as st

from logdrive.model.framing import Part
from logdrive.wire.pravega import fields as kinds
from logdrive.wire.pravega.codec import MESSAGE_TYPES
from logdrive.wire.pravega.control import Hello
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.tables import TableKey

I64S = st.integers(-(1 << 63), (1 << 63) - 1)
_BY_ALIAS: dict[Any, st.SearchStrategy[Any]] = {
    kinds.I8: st.integers(-128, 127),
    kinds.I32: st.integers(-(1 << 31), (1 << 31) - 1),
    kinds.TailI32: st.integers(-(1 << 31), (1 << 31) - 1),
    kinds.I64: I64S,
    kinds.TailI64: I64S,
}
_BY_TYPE: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    str: st.text(max_size=20),
    UUID: st.uuids(),
    bytes: st.binary(max_size=40),
    Part | tuple[Part, ...]: st.binary(max_size=40),
    Part: st.binary(max_size=40),
    TableKey: st.builds(TableKey, st.binary(min_size=1, max_size=9), I64S) | st.just(TableKey(b"")),
}
_ITEMS: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=9),
    int: I64S,
    TableKey: _BY_TYPE[TableKey],
}


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    if annotation in _BY_ALIAS:
        return _BY_ALIAS[annotation]
    plain = get_args(annotation)[0]
    if plain in _BY_TYPE:
        return _BY_TYPE[plain]
    item = get_args(plain)[0]
    return st.lists(_ITEMS[item] if item in _ITEMS else instances(item), max_size=3).map(tuple)


def instances(made: type[Any]) -> st.SearchStrategy[Any]:
    """Any value of a class declared with the aliases of `fields`."""
    hints = get_type_hints(made, include_extras=True)
    return st.builds(made, **{entry.name: _values(hints[entry.name]) for entry in fields(made)})


def _any_of(made: type[Message]) -> st.SearchStrategy[Message]:
    if made is Hello:  # an older peer's Hello changes how what follows is read
        return st.builds(Hello, st.integers(16, (1 << 31) - 1), _BY_ALIAS[kinds.I32])
    return instances(made)


MESSAGES: st.SearchStrategy[Message] = st.sampled_from(
    [MESSAGE_TYPES[code] for code in sorted(MESSAGE_TYPES)]
).flatmap(_any_of)
