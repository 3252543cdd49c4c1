"""Finds all mistakes in a parsed document, where msgspec stops at the first one.

Each table is walked here, and each value converted by itself, from the leaves up; one that fits its
type is also given to the check that the type brings along (`logdrive.config.bounds.checked`). A
table as a whole (its `__post_init__`) is checked only if all its values are right. Its error is
about one key if it begins with the `repr` of that key's value, or with the key's name and a colon;
otherwise it is about the table.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import orjson
from msgspec import inspect

from logdrive.config.bounds import value_checks
from logdrive.config.words import describe_type
from logdrive.errors import Mistake

_SHOWN_CHARACTERS = 80
"""Limit on a value in an error message."""
_SECRET = re.compile("tok|pass|pwd|secret", re.IGNORECASE)
"""What is in the name of a key, however it is misspelt, whose value is not shown."""
_REASON = re.compile(r"(?P<reason>.*?)(?: - at `\$(?P<path>[^`]*)`)?", re.DOTALL)
_OWN_WORDS = ("Expected ", "Invalid ", "Object ")
"""How msgspec's own errors begin; a description of the type replaces them."""


def find_mistakes(document: dict[str, Any], struct: type[msgspec.Struct]) -> list[Mistake]:
    """Return all mistakes in *document*, each table's in its order, then its missing keys."""
    return list(_value(document, struct, ""))


def struct_fields(struct: type[msgspec.Struct]) -> dict[str, msgspec.structs.FieldInfo]:
    """Return the fields of *struct* by their names in files."""
    return {field.encode_name: field for field in msgspec.structs.fields(struct)}


def member_types(value_type: inspect.Type) -> Iterator[inspect.Type]:
    """Yield the types that a value may have: the members of a union, or the one type."""
    if isinstance(value_type, inspect.Metadata):
        yield from member_types(value_type.type)
    elif isinstance(value_type, inspect.UnionType):
        for member in value_type.types:
            yield from member_types(member)
    else:
        yield value_type


def table_struct(value_type: inspect.Type) -> type[msgspec.Struct] | None:
    """Return the Struct that a table has to fit, None if the value may be no table."""
    return next(
        (
            member.cls
            for member in member_types(value_type)
            if isinstance(member, inspect.StructType)
        ),
        None,
    )


def list_item_type(value_type: inspect.Type) -> inspect.Type | None:
    """Return the type of a list's items, None if the value may be no list."""
    lists = (inspect.ListType, inspect.VarTupleType)
    return next(
        (member.item_type for member in member_types(value_type) if isinstance(member, lists)), None
    )


def suggest_key(word: str, allowed: list[str]) -> str:
    """Return text that says which of *allowed* was probably meant, and lists them."""
    close = difflib.get_close_matches(word, allowed, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"{meant}there are {', '.join(allowed)}" if allowed else "no key is allowed here"


def _value(value: Any, python_type: Any, key: str) -> Iterator[Mistake]:
    value_type = inspect.type_info(python_type)
    mistakes = list(_inside(value, value_type, key))
    yield from mistakes
    # msgspec stops at the first mistake, so a table with some is not converted as a whole
    if not mistakes:
        try:
            msgspec.convert(value, python_type)
        except msgspec.ValidationError as error:
            yield _refused(value, value_type, key, str(error))


def _inside(value: Any, value_type: inspect.Type, key: str) -> Iterator[Mistake]:
    """Yield the mistakes inside tables and lists of tables."""
    if isinstance(value, dict) and (struct := table_struct(value_type)) is not None:
        yield from _table(value, struct, key)
    elif (
        isinstance(value, list)
        and (items := list_item_type(value_type)) is not None
        and (struct := table_struct(items)) is not None
    ):
        for index, item in enumerate(value):
            if isinstance(item, dict):
                yield from _value(item, struct, f"{key}[{index}]")


def _table(table: dict[str, Any], struct: type[msgspec.Struct], key: str) -> Iterator[Mistake]:
    fields = struct_fields(struct)
    for name, value in table.items():
        path = f"{key}.{name}" if key else name
        if name in fields:
            mistakes = list(_value(value, fields[name].type, path))
            yield from mistakes or _checked({name: value}, fields[name].type, key)
        else:
            remedy = f"there is no such key: {suggest_key(name, list(fields))}"
            yield Mistake(path, show_unknown(name, value), remedy)

    for name, field in fields.items():
        if field.required and name not in table:
            words = describe_type(inspect.type_info(field.type))
            yield Mistake(
                f"{key}.{name}" if key else name, "", f"this key is missing: write {words}"
            )


def _checked(pair: dict[str, Any], python_type: Any, key: str) -> Iterator[Mistake]:
    """Yield what the checks of a type say of a value that fits it; *pair* is its name and it."""
    for check in value_checks(inspect.type_info(python_type)):
        for error in _errors(check, *pair.values()):
            mistake = _about(pair, key, error)
            # it does not quote the value, in which there may be a password
            if mistake.key == key:
                (name,) = pair
                mistake = Mistake(f"{key}.{name}" if key else name, "", error)
            yield mistake


def _errors(check: Callable[[Any], object], value: Any) -> list[str]:
    """Return what *check* says of *value*; of a list, what it says of each item by itself."""
    try:
        check(value)
    except ValueError as error:
        items = value if isinstance(value, list) and len(value) > 1 else []
        of_items = dict.fromkeys(said for item in items for said in _errors(check, [item]))
        return list(of_items) or [str(error)]
    return []


def _refused(value: Any, value_type: inspect.Type, key: str, error: str) -> Mistake:
    """Return msgspec's error in our words; the message of a `__post_init__` stays as it is."""
    match = _REASON.fullmatch(error)
    reason, path = (match["reason"], match["path"] or "") if match else (error, "")
    is_list = isinstance(value, list)

    # the item of a list that the error is about
    refused = value
    for index in re.findall(r"\[(\d+)\]", path) if is_list else []:
        refused = refused[int(index)]
    full_key = key + path if is_list else key

    is_ours = not reason.startswith(_OWN_WORDS)
    # the `__post_init__` of a table, which names one of its keys or values
    if is_ours and isinstance(refused, dict):
        return _about(refused, full_key, reason)
    remedy = reason if is_ours else f"write {describe_type(value_type)}"
    if isinstance(value, dict) and _holds_tables(value_type):
        name = re.sub(r"\[\d+\]", "", full_key)
        remedy = f"write [[{name}]] in place of [{name}]: there may be several of these tables"
    return Mistake(full_key, show_value(refused), remedy)


def _holds_tables(value_type: inspect.Type) -> bool:
    """Return whether the value must be a list of tables."""
    items = list_item_type(value_type)
    return (
        table_struct(value_type) is None and items is not None and table_struct(items) is not None
    )


def _about(table: dict[str, Any], key: str, reason: str) -> Mistake:
    """Return the mistake that a check or a `__post_init__` reported for *table* at *key*, with the
    key of the value that it is about.
    """
    for name, value in table.items():
        path = f"{key}.{name}" if key else name
        if reason.startswith(f"{name}: "):
            return Mistake(path, show_value(value), reason.removeprefix(f"{name}: "))
        items = (
            [(f"{path}[{index}]", item) for index, item in enumerate(value)]
            if isinstance(value, list)
            else [(path, value)]
        )
        for item_path, item in items:
            if isinstance(item, str) and reason.startswith(quoted := repr(item)):
                remedy = reason.removeprefix(quoted).lstrip(": ")
                return Mistake(item_path, show_value(item), remedy)
    return Mistake(key, "", reason)


def show_value(value: Any) -> str:
    """Return *value* much as it is written in the file, cut to one short line.

    Texts in a table are left out: one by a wrong name may have a password, or a token.
    """
    text = orjson.dumps(_without_texts(value), default=str).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def show_unknown(name: str, value: Any) -> str:
    """Return *value* of a key that does not exist; "" if its *name* may mean a secret."""
    return "" if _SECRET.search(name) else show_value(value)


def _without_texts(value: Any, *, in_table: bool = False) -> Any:
    """Return *value* with dots for the texts that are in tables."""
    if isinstance(value, dict):
        return {name: _without_texts(each, in_table=True) for name, each in value.items()}
    if isinstance(value, list):
        return [_without_texts(each, in_table=in_table) for each in value]
    return "…" if in_table and isinstance(value, str) else value
