"""The receiver's and the store's configuration: what loads, and what is refused with a remedy."""

import re
from pathlib import Path
from uuid import UUID, uuid5

import pytest

from logdrive.address import IggyAddress, S2Address, ServiceAddress
from logdrive.config.load import load_config
from logdrive.errors import ConfigError
from logdrive.host.transport import ClientTls
from logdrive.model.identity import NAMESPACE
from logdrive.net.settings import ServerTlsConfig
from logdrive.services.config import StoreConfig
from logdrive.store.retention import Policy
from receiver.config import ReceiverConfig

CONFIG = Path(__file__).parents[2] / "config"


def test_the_shipped_receiver_configuration_loads() -> None:
    config = load_config(str(CONFIG / "receiver.toml"), ReceiverConfig, {})
    assert config.listen.where == ("127.0.0.1", 5044)
    assert isinstance(config.listen.tls, ServerTlsConfig)
    assert config.sink.stream.uri == "file:///var/lib/logdrive/store#logs/events"
    assert config.sink.dead_letters.uri == "file:///var/lib/logdrive/store#logs/events-dead"


def test_the_shipped_store_configuration_loads() -> None:
    config = load_config(str(CONFIG / "store.toml"), StoreConfig, {})
    assert config.store.path == "/var/lib/logdrive/store"
    assert config.listen.pravega.host_and_port == ("127.0.0.1", 6000)
    assert config.listen.pravega.tls_settings is None


def _write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "receiver.toml"
    path.write_text(text)
    return str(path)


def test_tls_is_turned_off_in_so_many_words_only(tmp_path: Path) -> None:
    sink = '[sink]\nuri = "file:///s#a/b"\n'
    with pytest.raises(ConfigError, match=r"listen\.tls"):
        load_config(
            _write(tmp_path, f'[listen]\naddress = "127.0.0.1:0"\n{sink}'), ReceiverConfig, {}
        )
    config = load_config(
        _write(tmp_path, f'[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n{sink}'),
        ReceiverConfig,
        {},
    )
    assert config.listen.settings is None


def test_an_identity_without_characters_is_refused(tmp_path: Path) -> None:
    """As of a variable without a value: every file would be sent again, as another source."""
    path = _write(
        tmp_path, '[listen]\naddress = "a:1"\ntls = "off"\n[sink]\nuri = "file:///s#a/b"\n'
    )
    with pytest.raises(ConfigError, match=r"listen\.identity.*not empty"):
        load_config(path, ReceiverConfig, {"LOGDRIVE_LISTEN__IDENTITY": ""})


def test_history_15_no_rule_routes_by_a_path__D7(tmp_path: Path) -> None:
    """All sources of a receiver go to its one stream: what asks for another is refused."""
    text = (
        '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "file:///s#a/b"\n'
        '[[route]]\npath = "/var/log/shop/*.log"\nuri = "file:///s#a/shop"\n'
    )
    with pytest.raises(ConfigError, match="route") as raised:
        load_config(_write(tmp_path, text), ReceiverConfig, {})
    assert "receiver.toml" in str(raised.value)


def test_every_mistake_is_told_with_its_key(tmp_path: Path) -> None:
    text = (
        '[listen]\naddress = "nowhere:x"\ntls = "off"\nkeepalive = 3\n[sink]\nuri = "s3://x"\n'
        'segments = 0\nunpack = "some"\n[limits]\ntotal_bytes = 1\n'
    )
    with pytest.raises(ConfigError) as told:
        load_config(_write(tmp_path, text), ReceiverConfig, {})
    keys = " ".join(mistake.key for mistake in told.value.mistakes)
    assert "listen.keepalive" in keys
    assert "sink.segments" in keys
    assert "sink.unpack" in keys
    assert "limits.total_bytes" in keys


def test_plain_pravega_beyond_loopback_must_be_asked_for(tmp_path: Path) -> None:
    start = (
        '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "file:///s#a/b"\n'
        '[listen.pravega]\naddress = "0.0.0.0:6000"\n'
    )
    with pytest.raises(ConfigError, match="loopback"):
        load_config(_write(tmp_path, start), ReceiverConfig, {})
    assert (
        load_config(_write(tmp_path, start + 'tls = "off"\n'), ReceiverConfig, {}).listen.pravega
        is not None
    )


@pytest.mark.parametrize(
    ("own", "tables", "words"),
    [
        (
            "127.0.0.1:5044",
            {"pravega": "127.0.0.1:5044"},
            "listen.pravega.address is listen.address, too",
        ),
        (
            "0.0.0.0:6000",
            {"pravega": "127.0.0.1:6000"},
            "listen.pravega.address is listen.address, too",
        ),
        (
            "127.0.0.1:5044",
            {"pravega": "127.0.0.1:6000", "controller": "127.0.0.1:6000"},
            "listen.controller.address is listen.pravega.address, too",
        ),
        (
            "127.0.0.1:8080",
            {"s2": "127.0.0.1:8080"},
            "listen.s2.address is listen.address, too",
        ),
        (
            "127.0.0.1:5044",
            {"pravega": "127.0.0.1:6000", "s2": "127.0.0.1:6000"},
            "listen.s2.address is listen.pravega.address, too",
        ),
        (
            "127.0.0.1:5044",
            {"s2": "127.0.0.1:8080", "iggy": "127.0.0.1:8080"},
            "listen.iggy.address is listen.s2.address, too",
        ),
        (
            "0.0.0.0:8090",
            {"iggy": "127.0.0.1"},
            "listen.iggy.address is listen.address, too",
        ),
        ("127.0.0.1:0", {"pravega": "127.0.0.1:0", "controller": "127.0.0.1:0"}, None),
        ("127.0.0.1:5044", {"pravega": "127.0.0.2:5044"}, None),
    ],
)
def test_two_listeners_of_one_receiver_have_two_ports(
    tmp_path: Path, own: str, tables: dict[str, str], words: str | None
) -> None:
    text = f'[listen]\naddress = "{own}"\ntls = "off"\n[sink]\nuri = "file:///s#a/b"\n'
    text += "".join(f'[listen.{name}]\naddress = "{where}"\n' for name, where in tables.items())
    path = _write(tmp_path, text)
    if words is None:
        load_config(path, ReceiverConfig, {})
        return
    with pytest.raises(ConfigError, match=words):
        load_config(path, ReceiverConfig, {})


@pytest.mark.parametrize("name", ["s2", "iggy"])
def test_a_face_for_other_clients_needs_a_store_of_its_own(tmp_path: Path, name: str) -> None:
    text = (
        '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "pravega://127.0.0.1:6000/a/b"\n'
        f'[listen.{name}]\naddress = "127.0.0.1:8080"\n'
    )
    with pytest.raises(ConfigError, match=rf"listen\.{name} serves a store of this process"):
        load_config(_write(tmp_path, text), ReceiverConfig, {})


def test_a_controller_must_know_where_it_sends_clients(tmp_path: Path) -> None:
    start = '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "file:///s#a/b"\n'
    face = '[listen.pravega]\naddress = "0.0.0.0:6000"\ntls = "off"\n'
    controller = '[listen.controller]\naddress = "127.0.0.1"\n'
    with pytest.raises(ConfigError, match=r"give \[listen.pravega\], too"):
        load_config(_write(tmp_path, start + controller), ReceiverConfig, {})
    with pytest.raises(ConfigError, match="advertise is missing"):
        load_config(_write(tmp_path, start + face + controller), ReceiverConfig, {})
    with pytest.raises(ConfigError, match=r"loopback addresses: give \[listen.controller.tls\]"):
        load_config(
            _write(tmp_path, start + face + '[listen.controller]\naddress = "0.0.0.0"\n'),
            ReceiverConfig,
            {},
        )
    found = load_config(
        _write(tmp_path, start + face + controller + 'advertise = "store.example.com"\n'),
        ReceiverConfig,
        {},
    ).listen.controller
    assert found is not None
    assert (found.host_and_port, found.advertised_address(("0.0.0.0", 6000))) == (
        ("127.0.0.1", 9090),
        ("store.example.com", 6000),
    )


_SERVICE = (
    '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = '
    '"pravega://{host}:6000/logs/events"\n'
)


def test_a_service_on_loopback_is_plain_and_elsewhere_needs_tls_or_the_words(
    tmp_path: Path,
) -> None:
    near = load_config(_write(tmp_path, _SERVICE.format(host="127.0.0.1")), ReceiverConfig, {})
    assert near.sink.settings is None
    assert near.sink.stream == ServiceAddress("127.0.0.1", 6000, "logs", "events")
    assert near.sink.dead_letters.uri == "pravega://127.0.0.1:6000/logs/events-dead"
    far = _SERVICE.format(host="store.example.com")
    with pytest.raises(
        ConfigError, match=r"sink: plain TCP is for loopback addresses: give \[sink.tls\]"
    ):
        load_config(_write(tmp_path, far), ReceiverConfig, {})
    assert (
        load_config(_write(tmp_path, far + 'tls = "off"\n'), ReceiverConfig, {}).sink.settings
        is None
    )
    secure = load_config(_write(tmp_path, far + '[sink.tls]\nca = "ca.pem"\n'), ReceiverConfig, {})
    assert secure.sink.settings == ClientTls("ca.pem")


def test_a_service_is_known_by_its_address_or_by_the_id_given__D5(tmp_path: Path) -> None:
    first, again = (
        load_config(_write(tmp_path, _SERVICE.format(host="localhost")), ReceiverConfig, {})
        for _ in range(2)
    )
    other = load_config(_write(tmp_path, _SERVICE.format(host="127.0.0.1")), ReceiverConfig, {})
    assert (
        first.sink.service_id
        == again.sink.service_id
        == uuid5(NAMESPACE, "pravega://localhost:6000/logs/events")
    )
    assert other.sink.service_id != first.sink.service_id
    named = _SERVICE.format(host="localhost") + f'store_id = "{UUID(int=9)}"\n'
    assert load_config(_write(tmp_path, named), ReceiverConfig, {}).sink.service_id == UUID(int=9)


def test_what_goes_with_the_other_kind_of_sink_only_is_refused(tmp_path: Path) -> None:
    face = '[listen.pravega]\naddress = "127.0.0.1:6000"\n'
    with pytest.raises(ConfigError, match=r"listen.pravega.*leave the table out"):
        load_config(_write(tmp_path, _SERVICE.format(host="127.0.0.1") + face), ReceiverConfig, {})
    embedded = '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "file:///s#a/b"\n'
    for more, key in (
        ('tls = "off"\n', "sink.tls"),
        (f'store_id = "{UUID(int=9)}"\n', "sink.store_id"),
    ):
        with pytest.raises(ConfigError, match=f"{key}.*leave it out"):
            load_config(_write(tmp_path, embedded + more), ReceiverConfig, {})


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("pravega://h/logs/events", "the port is missing, as in pravega://h:6000/logs/events"),
        ("pravega://h:6000/logs", "after the port goes /scope/stream"),
        ("pravega://h:6000/logs/a/b", "after the port goes /scope/stream"),
        ("pravega://h:99999/logs/a", "port between 0 and 65535"),
        ("kafka://h:1/a/b", "write file:///path#scope/stream, pravega://host:port/scope/stream"),
    ],
)
def test_an_address_that_is_none_is_told_how_it_is_written(
    tmp_path: Path, uri: str, words: str
) -> None:
    with pytest.raises(ConfigError) as told:
        load_config(
            _write(
                tmp_path, f'[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "{uri}"\n'
            ),
            ReceiverConfig,
            {},
        )
    assert [mistake.key for mistake in told.value.mistakes] == ["sink.uri"]
    assert words in str(told.value)


_RETENTION = '[[retention]]\nstream = "logs/*"\nmax_age_seconds = 60.0\nreaders = ["pipeline"]\n'


def test_retention_is_told_by_tables_and_what_makes_no_sense_is_refused(tmp_path: Path) -> None:
    text = (CONFIG / "store.toml").read_text()
    config = load_config(_write(tmp_path, text + _RETENTION), StoreConfig, {})
    assert [table.policy for table in config.retention] == [
        Policy("logs/*", None, 60_000, ("pipeline",))
    ]
    for wrong, reason in (
        ('stream = "logs"\nmax_bytes = 1', "write scope/stream"),
        ('stream = "logs/a"', "give max_bytes, max_age_seconds"),
    ):
        with pytest.raises(ConfigError, match=reason):
            load_config(_write(tmp_path, f"{text}[[retention]]\n{wrong}\n"), StoreConfig, {})


def test_a_receiver_cuts_nothing_in_a_store_that_is_elsewhere(tmp_path: Path) -> None:
    text = (CONFIG / "receiver.toml").read_text()
    assert load_config(_write(tmp_path, text + _RETENTION), ReceiverConfig, {}).retention
    elsewhere = re.sub(r'uri = "file:[^"]*"', 'uri = "pravega://127.0.0.1:6000/logs/events"', text)
    elsewhere = elsewhere.replace("[listen.pravega]", "[nothing]").replace(
        'address = "127.0.0.1:6000"', ""
    )
    with pytest.raises(ConfigError, match="retention is for a store of this process"):
        load_config(
            _write(tmp_path, elsewhere.replace("[nothing]", "") + _RETENTION), ReceiverConfig, {}
        )


def test_a_login_is_for_a_service_and_may_come_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "receiver.toml"
    text = (
        '[listen]\naddress = "127.0.0.1:5044"\ntls = "off"\n[sink]\nuri = "%s"\n[sink.login]\n'
        'user = "logdrive"\npassword = "x"\n'
    )
    path.write_text(text % "pravega://127.0.0.1:9090/logs/app")
    login = load_config(
        str(path), ReceiverConfig, {"LOGDRIVE_SINK__LOGIN__PASSWORD": "secret"}
    ).sink.credentials
    assert login is not None
    assert (login.user, login.password) == ("logdrive", "secret")
    path.write_text(text % "file:///store#logs/app")
    with pytest.raises(ConfigError, match="needs none"):
        load_config(str(path), ReceiverConfig, {})


_AUTH = (
    '[listen.auth]\nusers = "/etc/logdrive/users.toml"\ntoken_secret = '
    '"/etc/logdrive/token.secret"\n'
)
_PLAIN = "127.0.0.1"
_STORE = (
    '[store]\npath = "/store"\n[listen.pravega]\naddress = "%s:6000"\n%s[listen.controller]\n'
    'address = "%s:9090"\n%s'
)


def test_who_comes_is_asked_where_a_table_says_so(tmp_path: Path) -> None:
    auth = load_config(
        _write(tmp_path, _STORE % ("127.0.0.1", "", "127.0.0.1", "") + _AUTH), StoreConfig, {}
    ).listen.auth
    assert auth is not None
    assert (auth.token_seconds, auth.clear) == (600.0, False)
    receiver = (
        (CONFIG / "receiver.toml")
        .read_text()
        .replace("[sink]", f'[listen.controller]\naddress = "127.0.0.1:9090"\n{_AUTH}[sink]')
    )
    assert load_config(_write(tmp_path, receiver), ReceiverConfig, {}).listen.auth == auth


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        (
            _STORE % (_PLAIN, "", _PLAIN, "") + _AUTH.replace("/etc", "etc", 1),
            "listen.auth.users",
            "must be absolute",
        ),
        (
            _STORE % (_PLAIN, "", _PLAIN, "") + _AUTH + "token_seconds = 0.5\n",
            "listen.auth.token_seconds",
            "1",
        ),
        (
            '[store]\npath = "/store"\n[listen.pravega]\naddress = "127.0.0.1:6000"\n' + _AUTH,
            "listen.auth",
            "give [listen.controller], [listen.s2] or [listen.iggy]",
        ),
        (
            _STORE % ("127.0.0.1", "", "0.0.0.0", 'tls = "off"\n') + _AUTH,
            "listen.auth",
            "to listen.controller",
        ),
        (
            _STORE % ("10.0.0.1", 'tls = "off"\n', "127.0.0.1", "") + _AUTH,
            "listen.auth",
            "[listen.pravega.tls], or write clear = true",
        ),
    ],
)
def test_logins_without_a_controller_or_for_all_to_read_are_refused(
    tmp_path: Path, text: str, key: str, words: str
) -> None:
    with pytest.raises(ConfigError) as told:
        load_config(_write(tmp_path, text), StoreConfig, {})
    (mistake,) = told.value.mistakes
    assert mistake.key == key
    assert words in mistake.remedy


def test_passwords_travel_in_the_clear_only_where_that_is_said_in_so_many_words(
    tmp_path: Path,
) -> None:
    text = (
        _STORE % ("10.0.0.1", 'tls = "off"\n', "10.0.0.1", 'tls = "off"\n')
        + _AUTH
        + "clear = true\n"
    )
    assert load_config(_write(tmp_path, text), StoreConfig, {}).listen.auth is not None


_S2 = (
    '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "s2://{host}/my-basin/events"\n'
)


def test_s2_is_a_service_with_a_token_and_without_a_login(tmp_path: Path) -> None:
    near = load_config(
        _write(tmp_path, _S2.format(host="127.0.0.1") + 'token = "secret"\n'), ReceiverConfig, {}
    )
    address = near.sink.stream
    assert address == S2Address("127.0.0.1", 8080, "my-basin", "events")
    assert near.sink.dead_letters.uri == "s2://127.0.0.1:8080/my-basin/events-dead"
    assert near.sink.s2_target(address, {}).token == "secret"
    unsaid = load_config(_write(tmp_path, _S2.format(host="")), ReceiverConfig, {})
    assert unsaid.sink.stream.uri == "s2:///my-basin/events"
    for more, words in (
        ('[sink.login]\nuser = "u"\npassword = "p"\n', "S2 has access tokens instead"),
        ('[listen.pravega]\naddress = "127.0.0.1:6000"\n', r"listen.pravega.*leave the table out"),
        (
            '[[retention]]\nstream = "a/*"\nmax_bytes = 1\n',
            "retention is for a store of this process",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            load_config(_write(tmp_path, _S2.format(host="localhost") + more), ReceiverConfig, {})
    with pytest.raises(ConfigError, match="plain TCP is for loopback addresses"):
        load_config(_write(tmp_path, _S2.format(host="far.example.com")), ReceiverConfig, {})
    pravega = _SERVICE.format(host="localhost") + 'token = "secret"\n'
    with pytest.raises(ConfigError, match="leave token out: it is for s2://") as refused:
        load_config(_write(tmp_path, pravega), ReceiverConfig, {})
    assert "secret" not in str(refused.value)


_IGGY = (
    '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "iggy://{where}/logs/events"\n'
)


def test_iggy_is_a_service_with_a_login_in_its_uri_or_in_a_table(tmp_path: Path) -> None:
    for where, more, user, password in (
        ("localhost", "", "iggy", "iggy"),
        ("me:secret%40@localhost", "", "me", "secret@"),
        ("localhost", '[sink.login]\nuser = "me"\npassword = "p"\n', "me", "p"),
    ):
        near = load_config(_write(tmp_path, _IGGY.format(where=where) + more), ReceiverConfig, {})
        address = near.sink.stream
        assert isinstance(address, IggyAddress)
        assert near.sink.dead_letters.uri == "iggy://localhost:8090/logs/events-dead"
        target = near.sink.iggy_target(address)
        assert (target.user, target.password, target.port) == (user, password, 8090)
        assert near.sink.service_id == uuid5(NAMESPACE, "iggy://localhost:8090/logs/events")


@pytest.mark.parametrize(
    ("where", "more", "words"),
    [
        ("me:secret@localhost", '[sink.login]\nuser = "u"\npassword = "p"\n', "leave one of them"),
        ("me:secret@localhost", 'token = "t"\n', "leave token out"),
        ("me:secret@localhost", '[listen.s2]\naddress = "127.0.0.1:8080"\n', "leave the table out"),
        ("me:secret@far.example.com", "", "plain TCP is for loopback addresses"),
        ("me:secret@localhost/more", "", "after the host go /stream/topic"),
        ("secret@localhost", "", "before '@' go user and password"),
        (
            "me:secret@localhost",
            '[[retention]]\nstream = "a/*"\nmax_bytes = 1\n',
            "retention is for a store of this process",
        ),
    ],
)
def test_what_an_iggy_sink_has_not_is_refused_without_showing_the_password(
    tmp_path: Path, where: str, more: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        load_config(_write(tmp_path, _IGGY.format(where=where) + more), ReceiverConfig, {})
    assert "secret" not in str(refused.value)
