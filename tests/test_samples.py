"""The sample configurations load, name every setting, and show the defaults that hold."""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from agent.config.config import AgentConfig
from agent.config.events import EventsTable
from agent.config.files import InputTable
from logdrive.config.load import load_config
from logdrive.pipeline.config import PipelineConfig
from logdrive.services.config import StoreConfig
from receiver.config import ReceiverConfig

CONFIG = Path(__file__).parents[1] / "config"
SAMPLES: dict[str, type[msgspec.Struct]] = {
    "agent.toml": AgentConfig,
    "pipeline.toml": PipelineConfig,
    "receiver.toml": ReceiverConfig,
    "store.toml": StoreConfig,
}
EXAMPLE = "  # example"

_SETTING = re.compile(r"#(\w+ = .*|\[.*)")


def uncommented(text: str, *, examples: bool) -> dict[str, Any]:
    """Return *text* parsed, with the settings that are commented out; examples only on demand."""
    lines = []
    for line in text.splitlines():
        setting = _SETTING.fullmatch(line)
        is_alternative = line.startswith('#tls = "off"')  # of the table with the certificates
        if setting is None:
            lines.append(line)
        elif not is_alternative and (examples or not line.endswith(EXAMPLE)):
            lines.append(setting[1])
    return tomllib.loads("\n".join(lines))


def struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """Return the table that a setting of type *kind* is, or is a list of; None for a value."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    return next((struct for part in get_args(kind) if (struct := struct_in(part))), None)


def together(value: Any) -> Any:
    """Return a table; of a list of tables, all of them in one."""
    if not isinstance(value, list):
        return value
    merged: dict[str, Any] = {}
    for table in value:
        for key, inner in table.items():
            before = merged.get(key)
            merged[key] = before | inner if isinstance(before, dict) else inner
    return merged


def settings_that_differ(kind: type[msgspec.Struct], shown: dict[str, Any], path: str) -> set[str]:
    """Return the names of settings that only one of *kind* and *shown* has."""
    hints, fields = get_type_hints(kind), msgspec.structs.fields(kind)
    names = {field.encode_name for field in fields}
    # what every input's table has is shown once, with [[input]]
    if issubclass(kind, EventsTable) and kind is not InputTable:
        names -= {field.encode_name for field in msgspec.structs.fields(EventsTable)} - shown.keys()
    differ = {f"{path}{key}" for key in shown.keys() ^ names}
    for field in fields:
        table = struct_in(hints[field.name])
        if table is not None and field.encode_name in shown:
            inner = together(shown[field.encode_name])
            differ |= settings_that_differ(table, inner, f"{path}{field.encode_name}.")
    return differ


def default_of(field: msgspec.structs.FieldInfo) -> Any:
    """Return what a setting is where it is left out."""
    made = field.default_factory is not msgspec.NODEFAULT
    return field.default_factory() if made else field.default


def defaults_that_differ(
    kind: type[msgspec.Struct], shown: dict[str, Any], active: dict[str, Any], path: str
) -> list[str]:
    """Return the settings that *shown* has, *active* lacks, and whose default is another."""
    hints, wrong = get_type_hints(kind), []
    for field in msgspec.structs.fields(kind):
        name, key = f"{path}{field.encode_name}", field.encode_name
        if key not in shown:
            continue
        table = struct_in(hints[field.name])
        if table is not None:
            inner = together(active.get(key, {}))
            wrong += defaults_that_differ(table, together(shown[key]), inner, f"{name}.")
        elif key not in active and shown[key] != (default := default_of(field)):
            wrong.append(f"{name} = {shown[key]}, not {default}")
    return wrong


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_loads_as_it_is(name: str) -> None:
    load_config(str(CONFIG / name), SAMPLES[name], {})


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_names_every_setting_and_no_other(name: str) -> None:
    text = (CONFIG / name).read_text()
    differ = settings_that_differ(SAMPLES[name], uncommented(text, examples=True), "")
    tables_like_another = {table for table in differ if f"[{table}]" in text}
    assert differ - tables_like_another == set()


@pytest.mark.parametrize("name", SAMPLES)
def test_what_a_sample_comments_out_is_the_default(name: str) -> None:
    text = (CONFIG / name).read_text()
    shown, active = uncommented(text, examples=False), tomllib.loads(text)
    assert text.count("\n#") > text.count(EXAMPLE) > 0
    assert defaults_that_differ(SAMPLES[name], shown, active, "") == []
