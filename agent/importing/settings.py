"""Reads settings of another configuration one by one, so that none is passed over in silence."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"([\d.]+)(ms|s|m|h|d)")
_SIZES: Final = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_SIZE: Final = re.compile(r"([\d.]+)\s*([kmgb]?)(?:i?b)?", re.IGNORECASE)


class Settings:
    """The settings of one table; those that nobody took are `left`."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        """*where* names the table, for remarks."""
        self.where = where
        self._left = dict(flatten_keys(table))

    def take(self, *keys: str) -> Any:
        """Return the value of the first of *keys* that is set, and count all as dealt with."""
        return self.take_named(*keys)[1]

    def take_named(self, *keys: str) -> tuple[str, Any]:
        """Do the same, and return the full name of that setting, too; of none the first."""
        found = [(self.key(key), self._left.pop(key)) for key in keys if key in self._left]
        return found[0] if found else (self.key(keys[0]), None)

    def take_table(self, key: str) -> dict[str, Any]:
        """Return the settings below *key*, without it, and count them as dealt with."""
        prefix = key + "."
        found = [name for name in self._left if name.startswith(prefix)]
        return {name.removeprefix(prefix): self._left.pop(name) for name in found}

    def key(self, name: str) -> str:
        """Return the full name of a setting of this table."""
        return f"{self.where}.{name}" if self.where else name

    def left(self) -> Iterator[tuple[str, Any]]:
        """Yield the full name and the value of each setting that nobody took."""
        for name, value in self._left.items():
            yield self.key(name), value


def flatten_keys(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each setting: `{a: {b: 1}}` and `{a.b: 1}` are the same.

    Tables in lists stay as they are.
    """
    for name, value in table.items():
        if isinstance(value, Mapping) and value:
            for below, inner in flatten_keys(value):
                yield f"{name}.{below}", inner
        else:
            yield str(name), value


def nest_keys(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return *flat* with a table for each dot: the inverse of `flatten_keys`."""
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *tables, last = name.split(".")
        table = nested
        for each in tables:
            inner = table.setdefault(each, {})
            table = inner if isinstance(inner, dict) else table
        table[last] = value
    return nested


def lacks_value(value: Any) -> bool:
    """Return whether *value* is none, or has none in it, which TOML has no word for."""
    if isinstance(value, Mapping | list):
        return any(map(lacks_value, value.values() if isinstance(value, Mapping) else value))
    return value is None


def as_list(value: Any) -> list[Any]:
    """Return *value* as a list: a single value is a list of it, and none is empty."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def duration_seconds(value: Any) -> float | None:
    """Return a duration such as `1h30m`, `5s` or 10 in seconds; None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    text = str(value).replace(" ", "")
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return float(text) if text.replace(".", "", 1).isdigit() else None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def size_bytes(value: Any) -> int | None:
    """Return a size such as `10MiB`, `32k` or 4096 in bytes; None for anything else."""
    match = _SIZE.fullmatch(str(value).strip())
    return int(float(match[1]) * _SIZES[match[2].lower()]) if match else None
