"""The shipped configurations load, and what they comment out is what holds by default."""

import re
import tomllib
from pathlib import Path

import pytest

from logdrive.config import load
from logdrive.errors import ConfigError
from logdrive.net.settings import ServerTlsConfig
from logdrive.store.config import StoreConfig
from receiver.config import ReceiverConfig

CONFIG = Path(__file__).parents[2] / "config"


def test_the_shipped_receiver_configuration_loads() -> None:
    config = load(str(CONFIG / "receiver.toml"), ReceiverConfig, {})
    assert config.listen.where == ("127.0.0.1", 5044)
    assert isinstance(config.listen.tls, ServerTlsConfig)
    assert config.sink.stream.uri == "file:///var/lib/logdrive/store#logs/events"
    assert config.sink.dead_letters.uri == "file:///var/lib/logdrive/store#logs/events-dead"


def test_the_shipped_store_configuration_loads() -> None:
    config = load(str(CONFIG / "store.toml"), StoreConfig, {})
    assert config.store.path == "/var/lib/logdrive/store"
    assert config.listen.pravega.where == ("127.0.0.1", 6000)
    assert config.listen.pravega.settings is None


_UNLIKE_DEFAULTS = {"listen.identity", "listen.tls"}  # examples, not defaults


def test_what_is_commented_out_is_the_default() -> None:
    text = (CONFIG / "receiver.toml").read_text()
    active = load(str(CONFIG / "receiver.toml"), ReceiverConfig, {})
    table, seen = "", 0
    for line in text.splitlines():
        if found := re.match(r"(# )?\[([a-z.]+)\]", line):
            table = found[2]
        if found := re.match(r"# ([a-z_]+ = [^#]+)", line):
            ((key, value),) = tomllib.loads(found[1]).items()
            if (
                f"{table}.{key}".lstrip(".") in _UNLIKE_DEFAULTS
                or table == "listen.pravega.tls"
                or (table, key) == ("listen.pravega", "tls")
            ):
                continue
            place: object = active
            for part in table.split(".") if table else []:
                place = getattr(place, part)
            assert getattr(place, key) == value, f"{table}.{key}"
            seen += 1
    assert seen > 0


def _write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "receiver.toml"
    path.write_text(text)
    return str(path)


def test_tls_is_turned_off_in_so_many_words_only(tmp_path: Path) -> None:
    sink = '[sink]\nuri = "file:///s#a/b"\n'
    with pytest.raises(ConfigError, match=r"listen\.tls"):
        load(_write(tmp_path, f'[listen]\naddress = "127.0.0.1:0"\n{sink}'), ReceiverConfig, {})
    config = load(_write(tmp_path, f'[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n{sink}'), ReceiverConfig, {})
    assert config.listen.settings is None


def test_every_mistake_is_told_with_its_key(tmp_path: Path) -> None:
    text = '[listen]\naddress = "nowhere:x"\ntls = "off"\nkeepalive = 3\n[sink]\nuri = "s3://x"\nsegments = 0\n[limits]\ntotal_bytes = 1\n'
    with pytest.raises(ConfigError) as told:
        load(_write(tmp_path, text), ReceiverConfig, {})
    keys = " ".join(mistake.key for mistake in told.value.mistakes)
    assert "listen.keepalive" in keys
    assert "sink.segments" in keys
    assert "limits.total_bytes" in keys


def test_plain_pravega_beyond_loopback_must_be_asked_for(tmp_path: Path) -> None:
    start = '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = "file:///s#a/b"\n[listen.pravega]\naddress = "0.0.0.0:6000"\n'
    with pytest.raises(ConfigError, match="loopback"):
        load(_write(tmp_path, start), ReceiverConfig, {})
    assert load(_write(tmp_path, start + 'tls = "off"\n'), ReceiverConfig, {}).listen.pravega is not None
