"""Environment variables as configuration: `LOGDRIVE_OUTPUT__HOSTS` over `[output] hosts`."""

import contextlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

from logdrive.config.check import (
    list_item_type,
    show_unknown,
    struct_fields,
    suggest_key,
    table_struct,
)
from logdrive.errors import Mistake

PREFIX: Final = "LOGDRIVE_"
RESERVED: Final = frozenset(
    {
        "LOGDRIVE_FAULT",
        "LOGDRIVE_LOOPS",
        "LOGDRIVE_SHARED",
        "LOGDRIVE_USER",
        "LOGDRIVE_PASSWORD",
        "LOGDRIVE_PASSWORD_FILE",
    }
)
"""Variables with the prefix that are no configuration keys."""

# Kubernetes sets these in every container, for each service whose name begins with logdrive.
_SERVICE_LINK: Final = re.compile(
    r"LOGDRIVE_(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def apply_environment(
    document: dict[str, Any], struct: type[msgspec.Struct], environ: Mapping[str, str]
) -> tuple[dict[str, str], list[Mistake]]:
    """Set the values of *environ* in *document*.

    Return the variable of each key that was set, so that mistakes can name it, and a mistake for
    each variable without a key.
    """
    names: dict[str, str] = {}
    given: dict[tuple[str, ...], str] = {}  # the variable of each path
    mistakes: list[Mistake] = []
    # sorted, so that the first ten items of a list come in order
    for variable in sorted(environ):
        if (
            variable.startswith(PREFIX)
            and variable not in RESERVED
            and not _SERVICE_LINK.fullmatch(variable)
        ):
            path = tuple(variable.removeprefix(PREFIX).lower().split("__"))
            try:
                names[_set(document, struct, path, environ[variable], given)] = variable
                given[path] = variable
            except LookupError as error:
                mistakes.append(
                    Mistake(variable, show_unknown(variable, environ[variable]), str(error.args[0]))
                )
    return names, mistakes


def _set(
    document: dict[str, Any],
    struct: type[msgspec.Struct],
    path: Sequence[str],
    text: str,
    given: Mapping[tuple[str, ...], str],
) -> str:
    """Set the value at *path*, and return its key.

    Raises LookupError with the reason if there is no such key, or if another variable, which is in
    *given*, has set a word in place of the table that the value is in.
    """
    table, key = document, ""
    steps = list(path)
    while True:
        fields = struct_fields(struct)
        name = steps.pop(0)
        key = f"{key}.{name}" if key else name
        if name not in fields:
            raise LookupError(f"there is no key {key}: {suggest_key(name, list(fields))}")
        value_type = inspect.type_info(fields[name].type)

        # the last name is that of a value, those before it are tables and numbers of items
        if not steps:
            table[name] = _value(text, fields[name].type, value_type)
            return key
        if (below := table_struct(value_type)) is not None:
            if not isinstance(table.get(name), dict):
                if other := given.get(tuple(path[: len(path) - len(steps)])):
                    raise LookupError(f"{other} says {table[name]!r}: set one of the two")
                table[name] = {}  # in place of a word such as "off"
            table, struct = table[name], below
        else:
            table, struct, key = _item(table, name, value_type, steps, key)


def _item(
    table: dict[str, Any], name: str, value_type: inspect.Type, steps: list[str], key: str
) -> tuple[dict[str, Any], type[msgspec.Struct], str]:
    """Return table, Struct and key of the item with the next of *steps* as its number, in the list
    of tables at *name*. The item after the last is added.

    Raises LookupError with the reason if there can be no such item.
    """
    items = list_item_type(value_type)
    struct = table_struct(items) if items is not None else None
    if struct is None:
        raise LookupError(f"{key} is no table: it has no keys")
    listed = table.setdefault(name, [])
    if not isinstance(listed, list):
        raise LookupError(f"{key} is no list in the file: write [[{key}]] there")

    # the number after the last item's adds one
    step = steps.pop(0)
    if not step.isdecimal() or int(step) > len(listed):
        raise LookupError(
            f"{key} is a list: after its name goes the number of an item, at most {len(listed)} now"
        )
    if not steps:
        raise LookupError(
            f"{key}[{step}] is a table: after its number goes one of "
            f"{', '.join(struct_fields(struct))}"
        )

    if int(step) == len(listed):
        listed.append({})
    return listed[int(step)], struct, f"{key}[{step}]"


def _value(text: str, python_type: Any, value_type: inspect.Type) -> Any:
    """Return *text* as a TOML value if that fits, else as text, else as a list with commas."""
    candidates: list[Any] = []
    with contextlib.suppress(tomllib.TOMLDecodeError, KeyError):
        candidates.append(tomllib.loads(f"value = {text}")["value"])
    candidates.append(text)
    if list_item_type(value_type) is not None:
        candidates.append([item.strip() for item in text.split(",") if item.strip()])

    for candidate in candidates:
        try:
            msgspec.convert(candidate, python_type)
        except msgspec.ValidationError:
            continue
        return candidate
    # none fits: the check of the whole document says why
    return candidates[0]
