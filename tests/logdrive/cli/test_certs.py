"""`logdrive certs`: usable at once, private, and never overwritten by accident."""

import asyncio
import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography import x509

from logdrive.cli.certs import certs
from logdrive.net.certificates import FILES
from logdrive.net.identity import identity_of, names_in
from logdrive.net.stream import ClientTls, ServerTls, Stream
from logdrive.net.tcp import SystemTransport


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
        assert stat.S_IMODE((directory / name).stat().st_mode) == (0o600 if name.endswith(".key") else 0o644)
    names = names_in(load(directory / "server.pem"))
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
        async def greet(stream: Stream) -> None:
            await stream.write([b"welcome"])

        listener = await SystemTransport().listen("127.0.0.1", 0, server, greet)
        stream = await SystemTransport().connect("localhost", listener.address[1], client)
        data = await stream.read()
        await stream.close()
        await listener.close()
        return data

    assert asyncio.run(asyncio.wait_for(scenario(), 10)) == b"welcome"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl program here")
def test_openssl_verifies_them_strictly(tmp_path: Path) -> None:
    make(str(tmp_path), "--name", "mill.example")
    for name, purpose, extra in (("server", "sslserver", ["-verify_hostname", "mill.example"]), ("client", "sslclient", [])):
        command = ["openssl", "verify", "-x509_strict", "-purpose", purpose, *extra, "-CAfile", "ca.pem", f"{name}.pem"]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
        assert result.stdout == f"{name}.pem: OK\n", result.stderr
