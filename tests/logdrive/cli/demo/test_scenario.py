"""The demo passes its login to the programs that connect to the service, whatever the password
looks like.
"""

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from logdrive.cli.access import login_options
from logdrive.cli.demo.scenario import login_variables, sink_login_variables
from logdrive.config.load import load_config
from logdrive.services.pravega.client.controller import Login
from receiver.config import ReceiverConfig

LOGINS = [
    Login("fleet", password)
    for password in (
        "a secret",
        '"quoted"',
        "12",
        "[1]",
        "back\\slash",
        "Schlüssel: ja",
        " ends with a blank ",
    )
]


@pytest.mark.parametrize("login", LOGINS)
def test_a_receiver_takes_it_from_its_variables(tmp_path: Path, login: Login) -> None:
    config = tmp_path / "receiver.toml"
    config.write_text(
        '[listen]\naddress = "127.0.0.1:0"\ntls = "off"\n[sink]\nuri = '
        '"pravega://127.0.0.1:9090/demo/logs"\n'
    )
    assert (
        load_config(str(config), ReceiverConfig, sink_login_variables(login)).sink.credentials
        == login
    )
    assert sink_login_variables(None) == {}


@pytest.mark.parametrize("login", LOGINS)
def test_a_command_takes_it_from_its_variables_whatever_else_stands_there(
    tmp_path: Path, login: Login
) -> None:
    (other := tmp_path / "password").write_text("another\n")
    found: list[Login | None] = []
    command = click.command()(login_options(lambda login: found.append(login)))
    done = CliRunner().invoke(
        command, env={"LOGDRIVE_PASSWORD_FILE": str(other)} | login_variables(login)
    )
    assert (done.exit_code, found) == (0, [login])
