"""A receiver that serves S2's clients from its own store: what agents ship is read there, and what
S2's clients append is read over Pravega's protocol.
"""

import os
import subprocess
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.processes import free_port
from tests.support.installation import Installation, command

pytestmark = pytest.mark.process
BASIN, STREAM = "shipped-logs", "lines"


class Site:
    """A receiver with the faces of its store for Pravega's and for S2's clients."""

    def __init__(self, root: Path, certificates: Path) -> None:
        self._port = free_port()
        faces = (
            'unpack = "blocks"\n\n'  # S2's clients know nothing of packs
            f'[listen.pravega]\naddress = "127.0.0.1:{free_port()}"\n\n'
            f'[listen.s2]\naddress = "127.0.0.1:{self._port}"\n'
        )
        self.installation = Installation(
            root, certificates, receiver_extra=faces, stream=f"{BASIN}/{STREAM}"
        )

    def ask(self, path: str, body: object = None) -> Any:
        """Ask S2's face, over HTTP/1.1 in JSON, with bytes in base64."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._port}/v1/{path}",
            orjson.dumps(body) if body is not None else None,
            {"s2-basin": BASIN, "s2-format": "base64", "content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=20) as answer:
            return orjson.loads(answer.read())

    def run(self, *arguments: str) -> bytes:
        environment = {**os.environ, "HOME": str(self.installation.root)}
        done = subprocess.run(
            command(*arguments), capture_output=True, timeout=120, env=environment, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def ship(self, file: Path) -> None:
        tls = [
            f"--{name}={self.installation.tls / pem}"
            for name, pem in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
        ]
        to = f"localhost:{self.installation.port}"
        self.run("agent", "ship", str(file), "--to", to, *tls, "--json")


@pytest.fixture
def site(tmp_path: Path, certificates: Path) -> Iterator[Site]:
    found = Site(tmp_path, certificates)
    yield found
    found.installation.close()


def test_a_line_that_an_agent_shipped_is_read_by_clients_of_s2_and_of_pravega(
    site: Site, tmp_path: Path
) -> None:
    receiver = site.installation.receiver()
    file = tmp_path / "app.log"
    file.write_text("".join(f"line {number}\n" for number in range(100)))
    site.ship(file)

    # the sink has four segments, and each is a stream of S2
    names = [stream["name"] for stream in site.ask("streams")["streams"]]
    assert [name for name in names if name.startswith(f"{STREAM}/")] == [
        f"{STREAM}/{number}" for number in range(4)
    ]
    bodies = []
    for number in range(4):
        path = f"streams/{STREAM}%2F{number}/records"
        tail = site.ask(f"{path}/tail")["tail"]["seq_num"]
        if tail:
            records = site.ask(f"{path}?seq_num=0")["records"]
            assert [record["seq_num"] for record in records] == list(range(tail))
            bodies += [b64decode(record["body"]) for record in records]
    header, block = map(orjson.loads, bodies)
    assert header["logdrive"]["kind"] == "data"
    assert block["message"] == file.read_text()

    uri = f"file://{site.installation.store}#{BASIN}/{STREAM}"
    assert site.run("store", "cat", uri) == file.read_bytes()
    site.ask("streams", {"stream": "by-s2"})
    body = {"records": [{"body": "ZnJvbSBTMg=="}]}  # "from S2"
    assert site.ask("streams/by-s2/records", body)["end"]["seq_num"] == 1
    other = f"file://{site.installation.store}#{BASIN}/by-s2"
    assert b"from S2" in site.run("store", "cat", other)
    assert receiver.terminate() == 0
