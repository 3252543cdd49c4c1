"""The `format` of an input: short or as a table; mistakes name their key and remedy."""

from pathlib import Path

import pytest

from agent.config.config import AgentConfig
from agent.config.formats import FormatTable, format_table
from logdrive.config.load import load_config
from logdrive.errors import ConfigError
from tests.agent.test_config import MINIMAL


def load(directory: Path, setting: str) -> AgentConfig:
    path = directory / "agent.toml"
    path.write_text(MINIMAL.replace("[output]", f"{setting}\n[output]"))
    return load_config(str(path), AgentConfig, {})


def test_a_name_is_short_for_a_table(tmp_path: Path) -> None:
    (short,) = load(tmp_path, 'format = "json"').input
    (whole,) = load(tmp_path, '[input.format]\ntype = "json"').input
    assert format_table(short.format) == format_table(whole.format) == FormatTable(type="json")
    assert short.needs_events
    (plain,) = load(tmp_path, "").input
    assert (format_table(plain.format), plain.needs_events) == (None, False)


@pytest.mark.parametrize(
    ("setting", "remedy"),
    [
        ('format = "jsn"', "json"),
        ('format = { type = "jsn" }', "json"),
        ("format = { type = 'json', key = 'a' }", "under"),
        ("format = { type = 'json', kez = 'a' }", "no such key"),
        ("format = { type = 'json', fields = 'bottom' }", "top"),
        ("format = { type = 'json', bad_lines = 'drop' }", "mark"),
        ("format = { type = 'json', content = 'logfmt' }", "no content"),
        ("format = { type = 'cri', content = 'docker' }", "can't be docker"),
        ("format = { type = 'cri', content = 'auto' }", "can't be auto"),
        ("format = { type = 'csv', columns = ['a', 'a'] }", "same name"),
        ("format = { type = 'json', columns = ['a'] }", "format.columns"),
        ("format = { type = 'key_value', delimiter = ';' }", "format.delimiter"),
        ("format = { type = 'csv', pair_separator = ';' }", 'type = "key_value" alone'),
        ("format = { type = 'csv', delimiter = '' }", "delimiter"),
        ("format = { type = 'csv', delimiter = '::' }", "delimiter"),
        ("format = { type = 'csv', quote = ',' }", "differ"),
        ("format = { type = 'key_value', pair_separator = '=' }", "differ"),
        ("format = { type = 'key_value', value_separator = '' }", "value_separator"),
    ],
)
def test_mistakes_of_a_format_name_their_key_and_remedy(
    tmp_path: Path, setting: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, setting)
    (mistake,) = caught.value.mistakes
    assert mistake.key.startswith("input[0].format")
    assert remedy in f"{mistake.key} {mistake.remedy}"
