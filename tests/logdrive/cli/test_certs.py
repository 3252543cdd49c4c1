"""`logdrive certs`: certificates work at once, keys are private, and no file is overwritten."""

import asyncio
import errno
import itertools
import os
import stat
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from logdrive.cli.certs import certs
from logdrive.host.transport import ByteStream, ClientTls, ServerTls
from logdrive.net.certificates import FILES
from logdrive.net.identity import certificate_names, identity_of
from logdrive.net.tcp import SystemTransport
from tests.conftest import need_program


def make(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(certs, [*arguments])
    return result.exit_code, result.output


def load(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_the_promised_files_with_private_keys(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "certs"
    code, output = make(str(directory), "--name", "mill.example", "--name", "192.0.2.7")
    assert code == 0
    assert str(directory) in output
    assert sorted(path.name for path in directory.iterdir()) == sorted(FILES)
    for name in FILES:
        assert stat.S_IMODE((directory / name).stat().st_mode) == (
            0o600 if name.endswith(".key") else 0o644
        )
    names = certificate_names(load(directory / "server.pem"))
    assert names[:2] == ["mill.example", "192.0.2.7"]
    assert {"localhost", "127.0.0.1", "::1"} <= set(names)
    assert identity_of(load(directory / "client.pem")).startswith("dns:")


def test_the_client_may_be_named_by_a_uri(tmp_path: Path) -> None:
    code, output = make(str(tmp_path), "--client", "spiffe://mill/agent")
    assert code == 0
    assert identity_of(load(tmp_path / "client.pem")) == "uri:spiffe://mill/agent"
    assert "uri:spiffe://mill/agent" in output


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    assert make(str(tmp_path))[0] == 0
    before = (tmp_path / "ca.key").read_bytes()
    code, output = make(str(tmp_path))
    assert code == 2
    assert "--force" in output
    assert (tmp_path / "ca.key").read_bytes() == before
    assert make(str(tmp_path), "--force")[0] == 0
    assert (tmp_path / "ca.key").read_bytes() != before


@pytest.mark.parametrize("room", range(len(FILES)))
def test_a_try_that_the_disk_had_no_room_for_leaves_no_ca_that_lacks_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    replace, replaced = os.replace, itertools.count()

    def fill_up(old: str, new: str) -> None:
        if next(replaced) == room:
            raise OSError(errno.ENOSPC, "no room", new)
        replace(old, new)

    with monkeypatch.context() as full:
        full.setattr(os, "replace", fill_up)
        code, output = make(str(tmp_path))
        assert (code, "no room" in output) == (1, True), output
    assert not (tmp_path / "ca.pem").exists()
    code, output = make(str(tmp_path), "--client", "web-1")
    if room:
        assert code == 2
        assert "exists, and no ca.pem: " in output
        assert make(str(tmp_path), "--client", "web-1", "--force")[0] == 0
    assert {*FILES} <= {path.name for path in tmp_path.iterdir()}


def test_a_directory_that_cannot_be_made_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, output = make(str(tmp_path / "file" / "below"))
    assert code == 1
    assert "Traceback" not in output


def test_both_sides_take_them(tmp_path: Path) -> None:
    make(str(tmp_path))
    path = {name: str(tmp_path / name) for name in FILES}
    server = ServerTls(path["server.pem"], path["server.key"], path["ca.pem"])
    client = ClientTls(path["ca.pem"], path["client.pem"], path["client.key"])

    async def scenario() -> bytes:
        async def greet(stream: ByteStream) -> None:
            await stream.write([b"welcome"])

        listener = await SystemTransport().listen("127.0.0.1", 0, server, greet)
        stream = await SystemTransport().connect("localhost", listener.address[1], client)
        data = await stream.read()
        await stream.close()
        await listener.close()
        return data

    assert asyncio.run(asyncio.wait_for(scenario(), 10)) == b"welcome"


def test_openssl_verifies_them_strictly(tmp_path: Path) -> None:
    need_program("openssl")
    make(str(tmp_path), "--name", "mill.example")
    for name, purpose, extra in (
        ("server", "sslserver", ["-verify_hostname", "mill.example"]),
        ("client", "sslclient", []),
    ):
        command = [
            "openssl",
            "verify",
            "-x509_strict",
            "-purpose",
            purpose,
            *extra,
            "-CAfile",
            "ca.pem",
            f"{name}.pem",
        ]
        result = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False
        )
        assert result.stdout == f"{name}.pem: OK\n", result.stderr


def test_clients_are_added_to_the_ca_that_is_there(tmp_path: Path) -> None:
    make(str(tmp_path), "--client", "web-1", "--client", "web-2")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(before) == sorted([*FILES, "web-2.pem", "web-2.key"])
    code, output = make(
        str(tmp_path), "--client", "web-3.example", "--client", "spiffe://mill/agent"
    )
    assert (code, "dns:web-3.example" in output, "spiffe-mill-agent.pem" in output) == (
        0,
        True,
        True,
    )
    assert {
        path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name in before
    } == before
    authority = load(tmp_path / "ca.pem")
    for name, identity in (
        ("client", "dns:web-1"),
        ("web-2", "dns:web-2"),
        ("spiffe-mill-agent", "uri:spiffe://mill/agent"),
    ):
        added = load(tmp_path / f"{name}.pem")
        added.verify_directly_issued_by(authority)
        assert identity_of(added) == identity
        assert stat.S_IMODE((tmp_path / f"{name}.key").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--client", "web-1", "--name", "other"), "--name is only for new ones"),
        (("--client", "here"), "exists already: copy it and its key to that agent"),
        (("--client", "server"), "no file name of its own"),
        (("--client", "a", "--client", "a"), "no file name of its own"),
        (("--client", "../.."), "no file name of its own"),
    ],
)
def test_what_cannot_be_added_is_said(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    make(str(tmp_path), "--client", "first", "--client", "here")
    before = sorted(tmp_path.iterdir())
    code, output = make(str(tmp_path), *arguments)
    assert (code, said in output) == (2, True), output
    assert sorted(tmp_path.iterdir()) == before


def test_a_ca_that_cannot_sign_is_said(tmp_path: Path) -> None:
    make(str(tmp_path))
    (tmp_path / "ca.key").write_bytes((tmp_path / "client.key").read_bytes())
    code, output = make(str(tmp_path), "--client", "web-1")
    assert (code, "is not the key of" in output) == (2, True)
    (tmp_path / "ca.key").write_text("nothing")
    assert "in PEM form" in make(str(tmp_path), "--client", "web-1")[1]


def test_a_client_is_not_added_where_the_key_of_the_ca_is_gone(tmp_path: Path) -> None:
    make(str(tmp_path))
    (tmp_path / "ca.key").unlink()
    before = sorted(tmp_path.iterdir())
    code, output = make(str(tmp_path), "--client", "web-2", "--bundle", str(tmp_path / "w2.pem"))
    assert (code, f"{tmp_path / 'ca.key'} is missing" in output) == (2, True), output
    assert "--client NAME" not in output
    assert sorted(tmp_path.iterdir()) == before
