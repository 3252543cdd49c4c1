"""Each mistake in the agent's configuration is reported with its key and a remedy."""

from pathlib import Path

import pytest

from agent.config.config import AgentConfig
from logdrive.config.load import load_config
from logdrive.errors import ConfigError

EXAMPLE = Path(__file__).parents[2] / "config" / "agent.toml"
MINIMAL = (
    '[agent]\nstate_dir = "/s"\n[[input]]\npaths = ["/l/*"]\n[output]\nhosts = ["h"]\ntls = "off"\n'
)


@pytest.mark.parametrize(
    ("change", "key", "remedy"),
    [
        (('state_dir = "/s"', 'state_dir = "s"'), "agent.state_dir", "absolute"),
        (('"/l/*"', '"l/*"'), "input[0].paths[0]", "absolute"),
        (('hosts = ["h"]', "hosts = []"), "output.hosts", "write"),
        (('hosts = ["h"]', 'hosts = ["h:x"]'), "output.hosts[0]", "port"),
        (('hosts = ["h"]', 'hosts = ["h", "h:0"]'), "output.hosts[1]", "port 0"),
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
        (('tls = "off"', 'tls = "off"\nmode = "spread"'), "output.mode", "balance"),
        (
            ('tls = "off"', 'tls = "off"\nmax_connection_seconds = 0'),
            "output.max_connection_seconds",
            "write",
        ),
        (('tls = "off"', 'tls = "off"\nwindow = 1'), "output.window", "no such key"),
        (('paths = ["/l/*"]', 'paths = ["/l/*"]\nstart = "24"'), "input[0].start", "24h"),
        (('paths = ["/l/*"]', f'paths = ["/l/*"]\nfields = {{n = {1 << 64}}}'), "input[0]", "JSON"),
        (
            ('paths = ["/l/*"]', f'paths = ["/l/*"]\nfields = {{n = {"[" * 31}{"]" * 31}}}'),
            "input[0]",
            "fewer than 32",
        ),
        (('paths = ["/l/*"]', f'paths = ["/l/*"]\ntags = ["{"x" * 11_000}"]'), "input[0]", "below"),
        (('tls = "off"', 'tls = "off"\n[control]\nsocket = "c"'), "control.socket", "absolute"),
        (
            ('tls = "off"', f'tls = "off"\n[control]\nsocket = "/{"x" * 103}"'),
            "control.socket",
            "more than 103 bytes",
        ),
        (('tls = "off"', 'tls = "off"\n[control]\nmetrics = "h:x"'), "control.metrics", "port"),
    ],
)
def test_mistakes_name_their_key_and_remedy(
    tmp_path: Path, change: tuple[str, str], key: str, remedy: str
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(MINIMAL.replace(*change))
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), AgentConfig, {})
    (mistake,) = caught.value.mistakes
    assert mistake.key == key
    assert remedy in mistake.remedy


def test_wrong_values_of_a_table_are_reported_at_once_beside_wrong_types(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    wrong = """paths = ["/l/*", "l", "m", "l"]
quiet_seconds = "3"
start = "yesterday"
format = "jsn"
encoding = "utf-99"
multiline = { start = "[", end = 3, goes_on = "(" }
processor = [{ exclude = { pattern = "(?=x)", field = 1 } }]
"""
    text = MINIMAL.replace('paths = ["/l/*"]', wrong)
    path.write_text(text.replace('tls = "off"', 'tls = "of"').replace('"h"', '"h:x"'))
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), AgentConfig, {})
    assert [mistake.key for mistake in caught.value.mistakes] == [
        "input[0].paths[1]",
        "input[0].paths[2]",
        "input[0].quiet_seconds",
        "input[0].start",
        "input[0].format",
        "input[0].encoding",
        "input[0].multiline.start",
        "input[0].multiline.end",
        "input[0].multiline.goes_on",
        "input[0].processor[0].exclude.pattern",
        "input[0].processor[0].exclude.field",
        "output.hosts[0]",
        "output.tls",
    ]


def test_wrong_values_of_all_tables_are_reported_at_once(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    wrong = f"""[journald]
directory = "journal"
[[socket]]
path = "/{"s" * 107}"
[control]
socket = "c.sock"
metrics = "h:x"
behind_seconds = -1
"""
    path.write_text(MINIMAL.replace('"/s"', '"s"').replace('"h"', '"h:0"') + wrong)
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), AgentConfig, {})
    assert [mistake.key for mistake in caught.value.mistakes] == [
        "agent.state_dir",
        "output.hosts[0]",
        "journald.directory",
        "socket[0].path",
        "control.socket",
        "control.metrics",
        "control.behind_seconds",
    ]


REST = MINIMAL.replace('[[input]]\npaths = ["/l/*"]\n', "")


@pytest.mark.parametrize(
    ("tables", "key", "remedy"),
    [
        ("", "", "at least one of [[input]], [stdin]"),
        ("[stdin]\nspool_bytes = 1_048_576", "stdin.spool_bytes", "8388608"),
        ('[[pipe]]\npath = "log.pipe"', "pipe[0].path", "absolute"),
        ('[[pipe]]\npath = "/p"\nmode = "rw"', "pipe[0].mode", "write"),
        ('[[pipe]]\npath = "/p"\n[[pipe]]\npath = "/p"', "", "pipe[0] once more"),
        (f'[[socket]]\npath = "/{"s" * 107}"', "socket[0].path", "107 bytes"),
        ('[[socket]]\npath = "/s"\nkind = "tcp"', "socket[0].kind", "write"),
        ('[[syslog]]\nlisten = "h:x"\nprotocol = "udp"', "syslog[0].listen", "port"),
        ('[[syslog]]\nlisten = "h"\nprotocol = "tls"', "syslog[0].protocol", "go together"),
        ('[[syslog]]\nlisten = "h"', "syslog[0].protocol", "missing"),
        (
            '[[syslog]]\nlisten = "h"\nprotocol = "udp"\nmessage_bytes = 479',
            "syslog[0].message_bytes",
            "480",
        ),
        ('[journald]\ndirectory = "journal"', "journald.directory", "absolute"),
    ],
)
def test_mistakes_in_tables_of_other_inputs_name_their_key_and_remedy(
    tmp_path: Path, tables: str, key: str, remedy: str
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f"{tables}\n{REST}")
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), AgentConfig, {})
    (mistake,) = caught.value.mistakes
    assert (mistake.key, remedy in mistake.remedy) == (key, True), mistake


def test_one_input_of_any_kind_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    for tables in (
        "[stdin]",
        '[[pipe]]\npath = "/p"',
        '[[socket]]\npath = "/s"',
        '[[syslog]]\nlisten = "[::]"\nprotocol = "udp"',
        "[journald]",
    ):
        path.write_text(f"{tables}\n{REST}")
        assert load_config(str(path), AgentConfig, {}).input == []


@pytest.mark.parametrize("dialect", ["lumberjack/1", "auto"])
@pytest.mark.parametrize(
    ("fields", "remedy"),
    [
        ('{"a.b" = 1, a = {b = 2}}', "in input[0], two fields become 'a.b' when flattened"),
        (
            f"{{{', '.join(f'{n:x} = 1' for n in range(1020))}}}",
            "input[0] has more than 1008 fields",
        ),
    ],
)
def test_fields_that_version_1_can_t_carry_are_a_mistake_where_it_may_be_spoken(
    tmp_path: Path, dialect: str, fields: str, remedy: str
) -> None:
    path = tmp_path / "agent.toml"
    text = MINIMAL.replace('paths = ["/l/*"]', f'paths = ["/l/*"]\nfields = {fields}')
    path.write_text(text)
    load_config(str(path), AgentConfig, {})
    path.write_text(text.replace('tls = "off"', f'tls = {{ca = "/c"}}\ndialect = "{dialect}"'))
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), AgentConfig, {})
    (mistake,) = caught.value.mistakes
    assert mistake.key == "input"
    assert remedy in mistake.remedy


def test_the_environment_overrides_for_sidecars() -> None:
    environ = {
        "LOGDRIVE_OUTPUT__HOSTS": "a:1,b:2",
        "LOGDRIVE_INPUT__0__PATHS": "/pods/*.log",
        "LOGDRIVE_AGENT__ID": "pod-7",
    }
    config = load_config(str(EXAMPLE), AgentConfig, environ)
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
    (table,) = load_config(str(path), AgentConfig, {}).input
    assert "n" in table.fields
