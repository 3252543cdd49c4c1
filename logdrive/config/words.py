"""Descriptions of the values that a configuration key takes, made from its type."""

from typing import Any

import orjson
from msgspec import inspect


def describe_type(found: inspect.Type) -> str:
    """Return a text such as `a whole number from 1 to 4096`, followed by the description of
    `msgspec.Meta`, if there is one.
    """
    if isinstance(found, inspect.Metadata):
        description = (found.extra_json_schema or {}).get("description")
        return describe_type(found.type) + (f" ({description})" if description else "")
    if isinstance(found, inspect.UnionType):
        words = [
            describe_type(each) for each in found.types if not isinstance(each, inspect.NoneType)
        ]
        return " or ".join(dict.fromkeys(words))
    if isinstance(found, inspect.IntType | inspect.FloatType):
        return ("a whole number" if isinstance(found, inspect.IntType) else "a number") + _range(
            found
        )
    if isinstance(found, inspect.StrType):
        return _text(found)
    if isinstance(found, inspect.LiteralType):
        return " or ".join(_quoted(each) for each in found.values)
    if isinstance(found, inspect.EnumType):
        return " or ".join(_quoted(each.value) for each in found.cls)
    if isinstance(found, inspect.ListType | inspect.VarTupleType):
        return _list(found)
    if isinstance(found, inspect.StructType):
        names = [field.encode_name for field in found.fields]
        return f"a table of {', '.join(names)}"
    if isinstance(found, inspect.DictType):
        return f"a table whose values are each {describe_type(found.value_type)}"
    return "true or false" if isinstance(found, inspect.BoolType) else "a value of another kind"


def _range(found: inspect.IntType | inspect.FloatType) -> str:
    low = _bound("from", found.ge) or _bound("above", found.gt)
    high = _bound("to", found.le) or _bound("below", found.lt)
    if found.ge is not None and not high:
        return f" of {_plain(found.ge)} or more"
    return "".join(f" {word}" for word in (low, high) if word)


def _bound(word: str, value: float | None) -> str:
    return "" if value is None else f"{word} {_plain(value)}"


def _plain(value: float) -> str:
    """Return *value* as it is written in a file: all digits, and no exponent if it is whole."""
    return str(int(value)) if value == int(value) else repr(value)


def _text(found: inspect.StrType) -> str:
    words = "a text"
    if found.min_length:
        words = (
            "a text that is not empty"
            if found.min_length == 1
            else f"a text of at least {found.min_length} characters"
        )
    if found.max_length is not None:
        words += f", at most {found.max_length} characters"
    return words + (f" that matches {found.pattern}" if found.pattern else "")


def _list(found: inspect.ListType | inspect.VarTupleType) -> str:
    item = found.item_type
    words = (
        'a list of texts, as in ["a", "b"]'
        if isinstance(item, inspect.StrType)
        else f"a list, each item {describe_type(item)}"
    )
    return words + (f", at least {found.min_length}" if found.min_length else "")


def _quoted(value: Any) -> str:
    return orjson.dumps(value).decode()
