"""Types of configuration values that several programs' tables have, with their bounds, and checks
that belong to a type.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import msgspec
from msgspec import inspect

_CHECK: Final = "check"

Positive = Annotated[float, msgspec.Meta(gt=0)]
"""A number above 0, mostly of seconds or days."""
Count = Annotated[int, msgspec.Meta(ge=1)]
"""A whole number of at least 1."""


def checked(check: Callable[[Any], object]) -> msgspec.Meta:
    """Return what annotates a type whose values *check* refuses, by a ValueError.

    `Annotated[str, checked(check_pattern)]`: a mistake in such a value is found though others of
    its table are wrong, too. msgspec does not call *check*: a table's `__post_init__` does.
    """
    return msgspec.Meta(extra={_CHECK: check})


def value_checks(value_type: inspect.Type) -> Iterator[Callable[[Any], object]]:
    """Yield the checks that *value_type*, or a member of a union, has."""
    if isinstance(value_type, inspect.Metadata):
        if check := (value_type.extra or {}).get(_CHECK):
            yield check
        yield from value_checks(value_type.type)
    elif isinstance(value_type, inspect.UnionType):
        for member in value_type.types:
            yield from value_checks(member)
