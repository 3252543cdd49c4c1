"""Paths of systemd's credentials in a configuration."""

from pathlib import Path

import pytest

from agent.config.config import AgentConfig
from logdrive.config.load import load_config
from logdrive.errors import ConfigError

_TOML = (
    '[agent]\nstate_dir = "/s"\n[[input]]\npaths = ["/l/*"]\n[output]\nhosts = ["h"]\n'
    '[output.tls]\nca = "/c/ca.pem"\ncert = "/c/a.pem"\nkey = "${CREDENTIALS_DIRECTORY}/a.key"\n'
)


def test_the_directory_of_credentials_takes_the_place_of_its_variable(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(_TOML)
    environ = {"CREDENTIALS_DIRECTORY": "/run/credentials/agent.service"}
    config = load_config(str(tmp_path / "agent.toml"), AgentConfig, environ)
    assert config.output.tls != "off"
    assert config.output.tls.key == "/run/credentials/agent.service/a.key"
    assert config.output.tls.cert == "/c/a.pem"


def test_a_path_of_a_credential_outside_of_a_service_names_key_and_remedy(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(_TOML)
    with pytest.raises(ConfigError) as caught:
        load_config(str(tmp_path / "agent.toml"), AgentConfig, {})
    (mistake,) = caught.value.mistakes
    assert mistake.key == "output.tls.key"
    assert "LoadCredential=" in mistake.remedy


def test_other_texts_with_braces_are_left_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(
        _TOML.replace("${CREDENTIALS_DIRECTORY}/a.key", "/k/${CREDENTIALS_DIRECTORY}/${HOME}")
    )
    config = load_config(str(tmp_path / "agent.toml"), AgentConfig, {})
    assert config.output.tls != "off"
    assert config.output.tls.key == "/k/${CREDENTIALS_DIRECTORY}/${HOME}"
