"""Every key is explained in config/agent.toml, and every mistake is told with its remedy."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.config import AgentConfig
from logdrive.config.load import load
from logdrive.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "config" / "agent.toml"
MINIMAL = (
    '[agent]\nstate_dir = "/s"\n[[input]]\npaths = ["/l/*"]\n[output]\nhosts = ["h"]\ntls = "off"\n'
)


def test_the_example_loads_and_mentions_every_key() -> None:
    config = load(str(EXAMPLE), AgentConfig, {})
    assert config.output.hosts == ["127.0.0.1:5044"]
    text = EXAMPLE.read_text()
    tables: list[Any] = [
        config.agent,
        config.input[0],
        config.output,
        config.output.backoff,
        config.output.tls,
    ]
    for table in tables:
        for field in msgspec.structs.fields(table):
            assert f"{field.name} = " in text or f"[output.{field.name}]" in text, (
                f"{field.name} is not explained"
            )


def test_what_the_example_calls_the_default_is_it(tmp_path: Path) -> None:
    minimal = tmp_path / "agent.toml"
    minimal.write_text(MINIMAL)
    example, default = load(str(EXAMPLE), AgentConfig, {}), load(str(minimal), AgentConfig, {})
    pairs: list[tuple[Any, Any]] = [
        (example.agent, default.agent),
        (example.output, default.output),
    ]
    for table, defaults in [*pairs, (example.input[0], default.input[0])]:
        for field in msgspec.structs.fields(table):
            if not field.required and field.name not in ("exclude", "fields", "tags"):
                assert getattr(table, field.name) == getattr(defaults, field.name), field.name


@pytest.mark.parametrize(
    ("change", "key", "remedy"),
    [
        (('state_dir = "/s"', 'state_dir = "s"'), "agent", "absolute"),
        (('"/l/*"', '"l/*"'), "input[0].paths[0]", "absolute"),
        (('hosts = ["h"]', "hosts = []"), "output.hosts", "write"),
        (('hosts = ["h"]', 'hosts = ["h:x"]'), "output.hosts[0]", "port"),
        (('tls = "off"', 'tls = "on"'), "output.tls", "write"),
        (('tls = "off"', 'tls = "off"\ndialect = "auto"'), "output", "needs TLS"),
        (
            ('tls = "off"', 'tls = "off"\ncompression = "zlib"\nlevel = 6'),
            "output",
            "levels 1 to 3",
        ),
        (
            ('tls = "off"', 'tls = "off"\nwindows_in_flight = 17'),
            "output.windows_in_flight",
            "write",
        ),
        (('tls = "off"', 'tls = "off"\nwindow = 1'), "output.window", "no such key"),
        (('paths = ["/l/*"]', f'paths = ["/l/*"]\nfields = {{n = {1 << 64}}}'), "input[0]", "JSON"),
        (
            ('paths = ["/l/*"]', f'paths = ["/l/*"]\nfields = {{n = {"[" * 31}{"]" * 31}}}'),
            "input[0]",
            "fewer than 32",
        ),
        (('paths = ["/l/*"]', f'paths = ["/l/*"]\ntags = ["{"x" * 11_000}"]'), "input[0]", "below"),
    ],
)
def test_mistakes_name_their_key_and_remedy(
    tmp_path: Path, change: tuple[str, str], key: str, remedy: str
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(MINIMAL.replace(*change))
    with pytest.raises(ConfigError) as caught:
        load(str(path), AgentConfig, {})
    (mistake,) = caught.value.mistakes
    assert mistake.key == key
    assert remedy in mistake.remedy


@pytest.mark.parametrize("dialect", ["lumberjack/1", "auto"])
@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ('{"a.b" = 1, a = {b = 2}}', "in input[0], two fields are 'a.b' once they are flat"),
        (
            f"{{{', '.join(f'{n:x} = 1' for n in range(1020))}}}",
            "input[0] has more than 1015 fields",
        ),
    ],
)
def test_fields_that_version_1_can_t_carry_are_a_mistake_where_it_may_be_spoken(
    tmp_path: Path, dialect: str, fields: str, remedy: str
) -> None:
    path = tmp_path / "agent.toml"
    text = MINIMAL.replace('paths = ["/l/*"]', f'paths = ["/l/*"]\nfields = {fields}')
    path.write_text(text)
    load(str(path), AgentConfig, {})
    path.write_text(text.replace('tls = "off"', f'tls = {{ca = "/c"}}\ndialect = "{dialect}"'))
    with pytest.raises(ConfigError) as caught:
        load(str(path), AgentConfig, {})
    (mistake,) = caught.value.mistakes
    assert mistake.key == "input"
    assert remedy in mistake.remedy


def test_the_environment_overrides_for_sidecars() -> None:
    environ = {
        "LOGDRIVE_OUTPUT__HOSTS": "a:1,b:2",
        "LOGDRIVE_INPUT__0__PATHS": "/pods/*.log",
        "LOGDRIVE_AGENT__ID": "pod-7",
    }
    config = load(str(EXAMPLE), AgentConfig, environ)
    assert config.output.hosts == ["a:1", "b:2"]
    assert config.input[0].paths == ["/pods/*.log"]
    assert config.agent.id == "pod-7"


def test_fields_as_deep_as_receivers_take_them_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(
        MINIMAL.replace(
            'paths = ["/l/*"]', f'paths = ["/l/*"]\nfields = {{n = {"[" * 30}{"]" * 30}}}'
        )
    )
    (table,) = load(str(path), AgentConfig, {}).input
    assert "n" in table.fields
