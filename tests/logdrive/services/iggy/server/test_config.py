"""`logdrive.services.iggy.server.config`: defaults, and who may be let in without a login."""

from pathlib import Path

import pytest

from logdrive.config.load import load_config
from logdrive.errors import ConfigError
from logdrive.services.config import StoreConfig

_STORE = '[store]\npath = "/store"\n[listen.pravega]\naddress = "127.0.0.1:6000"\n[listen.iggy]\n'
_AUTH = '[listen.auth]\nusers = "/etc/users.toml"\ntoken_secret = "/etc/token.secret"\n'


def _load(tmp_path: Path, text: str) -> StoreConfig:
    path = tmp_path / "store.toml"
    path.write_text(_STORE + text)
    return load_config(str(path), StoreConfig, {})


def test_iggys_own_port_and_every_revision_are_the_default(tmp_path: Path) -> None:
    face = _load(tmp_path, 'address = "127.0.0.1"\n').listen.iggy
    assert face is not None
    assert face.host_and_port == ("127.0.0.1", 8090)
    assert (face.revision, face.deduplication) == ("auto", None)


def test_a_table_turns_deduplication_on(tmp_path: Path) -> None:
    text = 'address = "127.0.0.1"\n[listen.iggy.deduplication]\nseconds = 5\n'
    face = _load(tmp_path, text).listen.iggy
    assert face is not None
    assert face.deduplication is not None
    assert (face.deduplication.entries, face.deduplication.seconds) == (10_000, 5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('address = "10.0.0.1"\ntls = "off"\n', "whose password is iggy"),
        ('address = "127.0.0.1"\nrevision = "R0"\n' + _AUTH, "has no logins"),
        ('address = "127.0.0.1"\nrevision = "R9"\n', "R9"),
        ('address = "127.0.0.1"\n[listen.iggy.deduplication]\nentries = 0\n', "entries"),
    ],
)
def test_what_would_let_everyone_in_or_makes_no_sense_is_refused(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        _load(tmp_path, text)


def test_logins_make_other_hosts_welcome(tmp_path: Path) -> None:
    text = 'address = "10.0.0.1"\ntls = "off"\n' + _AUTH + "clear = true\n"
    face = _load(tmp_path, text).listen.iggy
    assert face is not None
    assert face.is_exposed
