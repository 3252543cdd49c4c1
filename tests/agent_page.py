"""The tables of docs/agent.md that name every key and every metric, made of the code.

`python -m tests.agent_page` writes them anew; a test says when that is due.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from agent.config.config import AgentConfig
from agent.config.events import EventsTable
from tests.test_samples import struct_in

PAGE = Path(__file__).parents[1] / "docs" / "agent.md"
_BEGIN, _END = "<!-- keys: made by `python -m tests.agent_page` -->\n", "<!-- end of keys -->\n"
_RULES = re.compile(r",? ?\((rules? )?[A-Z]\d(, [A-Z]\d)*\)")


def key_tables() -> str:
    """Return a table of keys for each table of agent.toml."""
    parts: list[str] = []
    for name, struct, is_list in _tables(AgentConfig, "", is_list=False):
        heading = f"[[{name}]]" if is_list else f"[{name}]"
        rows = [
            f"| `{key}` | {default} | {text} |"
            for key, default, text in _rows(struct, leave_out_common=_is_other_input(struct, name))
        ]
        if rows:
            parts += [f"\n### `{heading}`\n", "| key | default | what it says |", "|---|---|---|"]
            parts += rows
    return "\n".join(parts) + "\n"


def page_with_keys(page: str) -> str:
    """Return the page with the tables as they should be."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return before + _BEGIN + key_tables() + "\n" + _END + after


def _is_other_input(struct: type[msgspec.Struct], name: str) -> bool:
    """Return whether *struct* is an input's, so that its common keys stand below [[input]]."""
    return issubclass(struct, EventsTable) and name != "input"


def _tables(
    struct: type[msgspec.Struct], path: str, *, is_list: bool
) -> Iterator[tuple[str, type[msgspec.Struct], bool]]:
    if path:
        yield path, struct, is_list
    hints = get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        below = struct_in(hints[field.name])
        common = path and _is_other_input(struct, path) and field.name in _common_keys()
        if below is not None and not common:
            name = f"{path}.{field.encode_name}" if path else field.encode_name
            yield from _tables(below, name, is_list="list[" in str(hints[field.name]))


def _common_keys() -> set[str]:
    return {field.name for field in msgspec.structs.fields(EventsTable)}


def _rows(
    struct: type[msgspec.Struct], *, leave_out_common: bool
) -> Iterator[tuple[str, str, str]]:
    texts, hints = _docstrings(struct), get_type_hints(struct)
    for field in msgspec.structs.fields(struct):
        if leave_out_common and field.name in _common_keys():
            continue
        below = struct_in(hints[field.name])
        default = "a table" if below is not None and "list[" not in str(below) else ""
        if not default or field.default is not msgspec.NODEFAULT:
            default = _shown(field) if below is None else default
        text = _RULES.sub("", texts[field.name])
        # one word, or several of the same
        words = dict.fromkeys(_values(hints[field.name]))
        values = [f"`{json.dumps(value)}`" for value in words]
        if len(values) > 1:
            text = f"{text.removesuffix('.')}. Values: {', '.join(values)}."
        yield field.encode_name, default, text.replace("|", "\\|")


def _values(hint: Any) -> Iterator[str]:
    """Yield the words that a key takes, if it takes only certain ones, or a table instead."""
    if get_origin(hint) is Literal:
        yield from get_args(hint)
    else:
        for inner in get_args(hint):
            yield from _values(inner)


def _shown(field: Any) -> str:
    """Return a default as agent.toml has it."""
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{field.default_factory()}`"
    if field.default is msgspec.NODEFAULT:
        return "needed"
    if field.default is None:
        return ""
    return f"`{json.dumps(field.default)}`"


def _docstrings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the text below each field of *struct* and of its bases."""
    texts: dict[str, str] = {}
    for each in reversed(struct.__mro__):
        if not issubclass(each, msgspec.Struct) or each is msgspec.Struct:
            continue
        (definition,) = ast.parse(inspect.getsource(each)).body
        assert isinstance(definition, ast.ClassDef)
        lines = inspect.getsource(each).splitlines()
        name = ""
        for node in definition.body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                name = node.target.id
                comment = lines[node.lineno - 1].partition("  # ")[2]
                texts[name] = comment[:1].upper() + comment[1:]
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and name:
                texts[name] = " ".join(str(node.value.value).split())
                name = ""
    return texts


if __name__ == "__main__":
    PAGE.write_text(page_with_keys(PAGE.read_text()))
