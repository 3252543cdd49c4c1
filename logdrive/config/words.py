"""Descriptions of the values that a configuration key takes, made from its type."""

from typing import Any, Final

import orjson
from msgspec import inspect


def describe_type(value_type: inspect.Type) -> str:
    """Return a text such as `a whole number from 1 to 4096`, followed by the description of
    `msgspec.Meta`, if there is one.
    """
    if isinstance(value_type, inspect.Metadata):
        description = (value_type.extra_json_schema or {}).get("description")
        return describe_type(value_type.type) + (f" ({description})" if description else "")

    if isinstance(value_type, inspect.UnionType):
        words = [
            describe_type(member)
            for member in value_type.types
            if not isinstance(member, inspect.NoneType)
        ]
        # two members may read the same
        return " or ".join(dict.fromkeys(words))

    # single values
    if isinstance(value_type, inspect.IntType | inspect.FloatType):
        kind = "a whole number" if isinstance(value_type, inspect.IntType) else "a number"
        return kind + _range(value_type)
    if isinstance(value_type, inspect.StrType):
        return _text(value_type)
    if isinstance(value_type, inspect.LiteralType):
        return " or ".join(_quoted(value) for value in value_type.values)
    if isinstance(value_type, inspect.EnumType):
        return " or ".join(_quoted(member.value) for member in value_type.cls)

    # lists and tables
    if isinstance(value_type, inspect.ListType | inspect.VarTupleType):
        return _list(value_type)
    if isinstance(value_type, inspect.StructType):
        required = [field.encode_name for field in value_type.fields if field.required]
        if required:
            return f"a table with {', '.join(required)}"
        return f"a table with any of {', '.join(field.encode_name for field in value_type.fields)}"
    if isinstance(value_type, inspect.DictType):
        if isinstance(value_type.value_type, inspect.AnyType):
            return 'a table, as in { name = "value" }'
        return f"a table whose values are each {describe_type(value_type.value_type)}"

    return _OTHERS.get(type(value_type), "a value of another kind")


_OTHERS: Final[dict[type[inspect.Type], str]] = {
    inspect.BoolType: "true or false",
    inspect.UUIDType: "a UUID, as `uuidgen` prints one",
}


def _range(value_type: inspect.IntType | inspect.FloatType) -> str:
    low = _bound("from", value_type.ge) or _bound("above", value_type.gt)
    high = _bound("to", value_type.le) or _bound("below", value_type.lt)
    # "from 1" alone would read as the beginning of a range
    if value_type.ge is not None and not high:
        return f" of {_plain(value_type.ge)} or more"
    return "".join(f" {word}" for word in (low, high) if word)


def _bound(word: str, value: float | None) -> str:
    return "" if value is None else f"{word} {_plain(value)}"


def _plain(value: float) -> str:
    """Return *value* as it is written in a file: all digits, and no exponent if it is whole."""
    return str(int(value)) if value == int(value) else repr(value)


def _text(value_type: inspect.StrType) -> str:
    words = "a text"
    if value_type.min_length:
        words = (
            "a text that is not empty"
            if value_type.min_length == 1
            else f"a text of at least {value_type.min_length} characters"
        )
    if value_type.max_length is not None:
        words += f", at most {value_type.max_length} characters"
    return words + (f" that matches {value_type.pattern}" if value_type.pattern else "")


def _list(value_type: inspect.ListType | inspect.VarTupleType) -> str:
    item = value_type.item_type
    words = (
        'a list of texts, as in ["a", "b"]'
        if isinstance(item, inspect.StrType)
        else f"a list, each item {describe_type(item)}"
    )
    return words + (f", at least {value_type.min_length}" if value_type.min_length else "")


def _quoted(value: Any) -> str:
    return orjson.dumps(value).decode()
