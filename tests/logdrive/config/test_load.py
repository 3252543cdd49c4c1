"""The configuration loader reports all mistakes at once, each with file, key, value and remedy; the
environment overrides the file.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.config.bounds import checked
from logdrive.config.environment import apply_environment
from logdrive.config.load import load_config, name_keys_in_errors
from logdrive.errors import ConfigError, Mistake
from logdrive.net.settings import ClientTlsConfig, ServerTlsConfig


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    paths: Annotated[list[str], msgspec.Meta(min_length=1)]
    fields: dict[str, str] = {}


class Output(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    hosts: Annotated[list[str], msgspec.Meta(min_length=1)]
    tls: Literal["off"] | ClientTlsConfig
    window: Annotated[int, msgspec.Meta(ge=1, le=4096, description="events sent at once")] = 256
    drain_seconds: Annotated[float, msgspec.Meta(gt=0)] = 10.0
    compression: Literal["zstd", "zlib"] | None = None


class Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    id: str | None = None
    state_dir: str = "/var/lib/logdrive"


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    agent: Agent = Agent()
    input: list[Input]
    output: Output


class Listen(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    tls: Literal["off"] | ServerTlsConfig


GOOD = """\
[[input]]
paths = ["/var/log/*.log"]
[output]
hosts = ["a:5044"]
tls = "off"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "agent.toml"


def parsed(file: Path, text: str = GOOD, **environ: str) -> Config:
    file.write_text(text)
    return load_config(str(file), Config, environ)


def mistakes(
    file: Path, text: str = GOOD, struct: type[msgspec.Struct] = Config, **environ: str
) -> list[str]:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(str(file), struct, environ)
    assert caught.value.file == str(file)
    assert all(line.startswith(f"{file}: ") for line in str(caught.value).splitlines())
    return [str(mistake) for mistake in caught.value.mistakes]


def test_a_good_file_with_its_defaults(file: Path) -> None:
    config = parsed(file)
    assert config.input[0].paths == ["/var/log/*.log"]
    assert config.output.tls == "off"
    assert config.output.window == 256
    assert config.agent == Agent()


def test_tls_is_a_word_or_a_table(file: Path) -> None:
    config = parsed(
        file, GOOD.replace('tls = "off"', '[output.tls]\nca = "ca.pem"\nserver_name = "mill"')
    )
    assert isinstance(config.output.tls, ClientTlsConfig)
    settings = config.output.tls.settings(("logdrive/1",))
    assert (settings.ca, settings.cert, settings.server_name, settings.alpn) == (
        "ca.pem",
        None,
        "mill",
        ("logdrive/1",),
    )


def test_all_mistakes_are_reported_at_once_with_key_value_and_remedy(file: Path) -> None:
    text = """\
[[input]]
path = ["x"]
[[input]]
paths = ["x", 7]
fields = {a = 1}
[output]
hosts = []
window = 0
drain_seconds = "long"
tls = "of"
compression = "gzip"
[agnt]
id = 3
"""
    assert mistakes(file, text) == [
        'input[0].path = ["x"]: there is no such key: did you mean paths? there are paths, fields',
        'input[0].paths: this key is missing: write a list of texts, as in ["a", "b"], at least 1',
        'input[1].paths[1] = 7: write a list of texts, as in ["a", "b"], at least 1',
        'input[1].fields = {"a":1}: write a table whose values are each a text',
        'output.hosts = []: write a list of texts, as in ["a", "b"], at least 1',
        "output.window = 0: write a whole number from 1 to 4096 (events sent at once)",
        'output.drain_seconds = "long": write a number above 0',
        'output.tls = "of": write "off" or a table with ca',
        'output.compression = "gzip": write "zlib" or "zstd"',
        'agnt = {"id":3}: there is no such key: did you mean agent? there are agent, input, output',
    ]


def test_mistakes_inside_a_table_that_could_be_a_word(file: Path) -> None:
    text = GOOD.replace('tls = "off"', "tls = {cert = 1, kei = 'x'}")
    assert mistakes(file, text) == [
        "output.tls.cert = 1: write a text",
        (
            'output.tls.kei = "x": there is no such key: did you mean key? there are ca, '
            "cert, key, server_name"
        ),
        "output.tls.ca: this key is missing: write a text",
    ]


def test_the_message_of_a_tables_own_check_is_kept(file: Path) -> None:
    assert mistakes(file, GOOD.replace('tls = "off"', 'tls = {ca = "a", cert = "b"}')) == [
        "output.tls: cert and key go together: give both, or neither where the server asks for none"
    ]
    assert mistakes(file, '[tls]\ncert = "a"\nkey = "b"', Listen) == [
        'tls: ca is missing: name the CA that signs client certificates, or write clients = "any"'
    ]
    assert mistakes(file, "", Listen) == [
        'tls: this key is missing: write "off" or a table with cert, key'
    ]


def test_a_server_takes_clients_without_certificates_only_if_configured_so(file: Path) -> None:
    file.write_text('[tls]\ncert = "a"\nkey = "b"\nclients = "any"')
    tls = load_config(str(file), Listen, {}).tls
    assert isinstance(tls, ServerTlsConfig)
    assert tls.settings().ca is None


def test_missing_tables_and_values_of_the_wrong_kind__only_required_keys_are_named(
    file: Path,
) -> None:
    assert mistakes(file, 'agent = "me"\ninput = {paths = ["x"]}') == [
        'agent = "me": write a table with any of id, state_dir',
        'input = {"paths":["…"]}: write [[input]] in place of [input]: there may be several of '
        "these tables",
        "output: this key is missing: write a table with hosts, tls",
    ]


def test_no_secret_is_shown_where_its_key_or_its_table_is_misspelt(file: Path) -> None:
    text = f'{GOOD}tokn = "hush"\n[outputs]\ntoken = "hush"\n[[inputs]]\na = {{b = ["hush"]}}\n'
    said = mistakes(file, text, LOGDRIVE_OUTPUT__PASSWRD="hush")
    assert len(said) == 4
    assert not any("hush" in each for each in said)


def test_long_values_are_cut_and_datetimes_shown(file: Path) -> None:
    (mistake,) = mistakes(file, f"{GOOD}[agent]\nid = [{', '.join(['1'] * 200)}]")
    assert len(mistake) < 150
    assert mistakes(file, f"{GOOD}[agent]\nid = 2026-11-21") == [
        'agent.id = "2026-11-21": write a text'
    ]


def test_the_environment_wins_over_the_file(file: Path) -> None:
    config = parsed(
        file,
        LOGDRIVE_OUTPUT__HOSTS='["b:1", "c:2"]',
        LOGDRIVE_OUTPUT__WINDOW="7",
        LOGDRIVE_OUTPUT__DRAIN_SECONDS="3",
        LOGDRIVE_AGENT__ID="5044",  # a text, although it looks like a number
        LOGDRIVE_AGENT__STATE_DIR='"/quoted"',
        LOGDRIVE_OUTPUT__TLS__CA="/etc/ca.pem",  # the table takes the place of the word
        LOGDRIVE_INPUT__0__PATHS="/a/*.log, /b/*.log",
        LOGDRIVE_INPUT__1__PATHS="/c",
        LOGDRIVE_INPUT__1__FIELDS='{team = "mill"}',
    )
    assert config.output.hosts == ["b:1", "c:2"]
    assert (config.output.window, config.output.drain_seconds) == (7, 3.0)
    assert config.agent == Agent(id="5044", state_dir="/quoted")
    assert config.output.tls == ClientTlsConfig(ca="/etc/ca.pem")
    assert [each.paths for each in config.input] == [["/a/*.log", "/b/*.log"], ["/c"]]
    assert config.input[1].fields == {"team": "mill"}


def test_a_variable_of_a_table_does_not_undo_the_word_that_another_sets(file: Path) -> None:
    (mistake,) = mistakes(file, LOGDRIVE_OUTPUT__TLS="off", LOGDRIVE_OUTPUT__TLS__CA="/ca.pem")
    assert mistake.startswith('LOGDRIVE_OUTPUT__TLS__CA = "/ca.pem": ')
    assert "LOGDRIVE_OUTPUT__TLS says 'off': set one of the two" in mistake


def test_a_sidecar_needs_no_more_than_an_empty_file(file: Path) -> None:
    config = parsed(
        file,
        "",
        LOGDRIVE_INPUT__0__PATHS="/a",
        LOGDRIVE_OUTPUT__HOSTS="a:1",
        LOGDRIVE_OUTPUT__TLS="off",
    )
    assert config.output == Output(hosts=["a:1"], tls="off")


def test_mistakes_of_the_environment_name_the_variable(file: Path) -> None:
    found = mistakes(
        file,
        LOGDRIVE_OUTPUT__WINDOW="many",
        LOGDRIVE_OUTPUT__TLS__CERT="c.pem",
        LOGDRIVE_OUTPT__HOSTS="x",
        LOGDRIVE_OUTPUT__HOST="x",
        LOGDRIVE_AGENT__ID__X="x",
        LOGDRIVE_INPUT__PATHS="x",
        LOGDRIVE_INPUT__5__PATHS="x",
        LOGDRIVE_INPUT__0="x",
        LOGDRIVE_="x",
    )
    assert found == [
        'LOGDRIVE_ = "x": there is no key : there are agent, input, output',
        'LOGDRIVE_AGENT__ID__X = "x": agent.id is no table: it has no keys',
        'LOGDRIVE_INPUT__0 = "x": input[0] is a table: after its number goes one of paths, fields',
        (
            'LOGDRIVE_INPUT__5__PATHS = "x": input is a list: after its name goes the number '
            "of an item, at most 1 now"
        ),
        (
            'LOGDRIVE_INPUT__PATHS = "x": input is a list: after its name goes the number of '
            "an item, at most 1 now"
        ),
        (
            'LOGDRIVE_OUTPT__HOSTS = "x": there is no key outpt: did you mean output? there '
            "are agent, input, output"
        ),
        'LOGDRIVE_OUTPUT__HOST = "x": there is no key output.host: did you mean hosts? there are '
        "hosts, tls, window, drain_seconds, compression",
        "output.tls.ca: this key is missing: write a text",
        (
            'LOGDRIVE_OUTPUT__WINDOW (output.window) = "many": write a whole number from 1 to '
            "4096 (events sent at once)"
        ),
    ]


def test_variables_that_are_no_configuration_are_left_alone(file: Path) -> None:
    parsed(
        file,
        LOGDRIVE_FAULT="agent.checkpoint.before_rename",
        LOGDRIVE_SHARED="/somewhere",
        # Kubernetes writes these beside a service named logdrive or logdrive-receiver
        LOGDRIVE_SERVICE_HOST="10.0.0.1",
        LOGDRIVE_PORT_5044_TCP_ADDR="10.0.0.1",
        LOGDRIVE_RECEIVER_PORT="tcp://10.0.0.1:5044",
        LOGDRIVE_RECEIVER_SERVICE_PORT_BEATS="5044",
        OTHER_OUTPUT__WINDOW="0",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[output]\nhosts = [1,\nx", "line 3, column 1 = x: this is not TOML: "),
        ("[agent]\nid = 'a'\nid = 'b'\n", "line 3, column 9 = id = 'b': this is not TOML: "),
        ("[agent\n", "line 1, column 7 = [agent: this is not TOML: "),
        ("x = '''\nabc", "line 2, at its end = abc: this is not TOML: "),
    ],
)
def test_a_file_that_is_no_toml_is_reported_with_line_and_column(
    file: Path, text: str, expected: str
) -> None:
    (mistake,) = mistakes(file, text)
    assert mistake.startswith(expected)


def test_files_that_cannot_be_read(file: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"no such file: name one with --config; config/\*.toml are complete examples",
    ):
        load_config(str(tmp_path / "none.toml"), Config, {})
    with pytest.raises(ConfigError, match="can't be read: Is a directory"):
        load_config(str(tmp_path), Config, {})
    file.write_bytes(b"x = '\xff'")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(str(file), Config, {})


@given(st.text(max_size=30))
def test_no_text_in_a_variable_can_reach_another_key(text: str) -> None:
    document: dict[str, object] = {"id": "mine"}
    names, found = apply_environment(document, Agent, {"LOGDRIVE_STATE_DIR": text})
    assert (names, found) == ({"state_dir": "LOGDRIVE_STATE_DIR"}, [])
    assert set(document) == {"id", "state_dir"}
    assert isinstance(msgspec.convert(document, Agent).state_dir, str)


# What a table's own check says ------------------------------------------------------------------


class Place(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    address: str
    hosts: list[str] = []
    path: str = "/"

    def __post_init__(self) -> None:
        for host in (self.address, *self.hosts):
            if ":" not in host:
                raise ValueError(f"{host!r} has no port: write host:port")
        if not self.path.startswith("/"):
            raise ValueError("path: it must be absolute")
        if self.path == self.address:
            raise ValueError("two things can't be one")


class Places(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    listen: Place
    tls: Literal["off"] | ServerTlsConfig = "off"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('address = "a"', 'listen.address = "a": has no port: write host:port'),
        (
            'address = "a:1"\nhosts = ["b:1", "c"]',
            'listen.hosts[1] = "c": has no port: write host:port',
        ),
        ('address = "a:1"\npath = "x"', 'listen.path = "x": it must be absolute'),
        ('address = "/:"\npath = "/:"', "listen: two things can't be one"),
    ],
)
def test_a_tables_own_message_is_about_the_value_it_quotes_or_the_key_it_begins_with(
    file: Path, text: str, expected: str
) -> None:
    assert mistakes(file, f"[listen]\n{text}\n", Places) == [expected]


class Faces(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    listen: Places


def test_mistakes_found_with_the_table_alone_get_the_files_path() -> None:
    faces = Faces(listen=Places(listen=Place(address="a:1")))
    error = ConfigError("listen.listen", [Mistake("address", "a:1", "a library is missing")])
    with pytest.raises(ConfigError) as raised, name_keys_in_errors("receiver.toml", faces):
        raise error
    assert str(raised.value) == ("receiver.toml: listen.listen.address = a:1: a library is missing")


def _even(number: int) -> None:
    if number % 2:
        raise ValueError("it must be even")


def _lower(words: list[str]) -> None:
    for word in words:
        if not word.islower():
            raise ValueError(f"{word!r} must be in lower case")


class Checked(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    number: Annotated[int, checked(_even)] | None = None
    words: Annotated[list[str], msgspec.Meta(min_length=1), checked(_lower)]
    text: str = ""


def test_a_value_that_its_types_check_refuses_is_found_beside_other_mistakes(file: Path) -> None:
    assert mistakes(file, 'number = 3\nwords = ["a", "B"]\ntext = 1', Checked) == [
        "number: it must be even",
        'words[1] = "B": must be in lower case',
        "text = 1: write a text",
    ]
    assert mistakes(file, 'number = "3"\nwords = []', Checked) == [
        'number = "3": write a whole number',
        'words = []: write a list of texts, as in ["a", "b"], at least 1',
    ]


def test_mistakes_found_without_the_file_get_its_path_and_the_full_key() -> None:
    tls = ServerTlsConfig(cert="/a/b.pem", key="/a/b.key", clients="any")
    places = Places(listen=Place(address="a:1"), tls=tls)
    for error, expected in (
        (
            ConfigError("listen", [Mistake("address", "a:1", "in use")]),
            "receiver.toml: listen.address = a:1: in use",
        ),
        (
            ConfigError("tls", [Mistake("cert", "/a/b.pem", "gone")]),
            "receiver.toml: tls.cert = /a/b.pem: gone",
        ),
        (
            ConfigError("tls", [Mistake("ca", "/elsewhere", "gone")]),
            "receiver.toml: tls.ca = /elsewhere: gone",
        ),
        (
            ConfigError("listen", [Mistake("path", "not as in the file", "gone")]),
            "receiver.toml: listen.path = not as in the file: gone",
        ),
        (
            ConfigError("tls.inner", [Mistake("cert", "/a/b.pem", "gone")]),
            "tls.inner: cert = /a/b.pem: gone",
        ),
        (
            ConfigError("agent", [Mistake("agent.state_dir", "/a", "in use")]),
            "receiver.toml: agent.state_dir = /a: in use",
        ),
        (ConfigError("/a/store", [Mistake("store", "", "in use")]), "/a/store: store: in use"),
    ):
        with pytest.raises(ConfigError) as raised, name_keys_in_errors("receiver.toml", places):
            raise error
        assert str(raised.value) == expected
