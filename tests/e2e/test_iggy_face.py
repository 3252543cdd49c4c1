"""A receiver with an Iggy face: what an agent ships is polled by Iggy's own client, and the other
way round.
"""

import os
import subprocess
from pathlib import Path

import orjson
import pytest

from bench.processes import free_port
from tests.interop.iggy.clients import CLASSIC, logged_in
from tests.support.installation import Installation, command

pytestmark = pytest.mark.process

SCOPE, STREAM = "logs", "app"
PARTITIONS = 4  # a receiver's stream has so many segments


def _run(site: Installation, *arguments: str) -> bytes:
    environment = {**os.environ, "HOME": str(site.root)}
    done = subprocess.run(
        command(*arguments), capture_output=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def test_a_line_that_an_agent_shipped_is_polled_by_a_client_of_iggy(
    tmp_path: Path, certificates: Path
) -> None:
    port = free_port()
    site = Installation(
        tmp_path,
        certificates,
        stream=f"{SCOPE}/{STREAM}",
        # its clients know nothing of packs
        receiver_extra=f'unpack = "blocks"\n[listen.iggy]\naddress = "127.0.0.1:{port}"\n',
    )
    try:
        receiver = site.receiver()
        file = tmp_path / "app.log"
        file.write_text("".join(f"line {number}\n" for number in range(100)))
        tls = [
            f"--{name}={certificates / pem}"
            for name, pem in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
        ]
        _run(site, "agent", "ship", str(file), "--to", f"localhost:{site.port}", *tls, "--json")

        with logged_in(CLASSIC, f"127.0.0.1:{port}") as driven:
            topic = driven.call("topic", SCOPE, STREAM)
            assert (topic["partitions_count"], topic["messages_count"]) == (PARTITIONS, 2)
            found = [
                payload
                for partition in range(PARTITIONS)
                for payload in driven.payloads(SCOPE, STREAM, partition)
            ]
            driven.call("create_topic", SCOPE, "by-iggy", 1)
            driven.send(SCOPE, "by-iggy", 0, [b"from Iggy"])
        header, block = map(orjson.loads, found)
        assert header["logdrive"]["kind"] == "data"
        assert block["message"] == file.read_text()

        assert receiver.terminate() == 0
        other = f"file://{site.store}#{SCOPE}/by-iggy"
        assert b"from Iggy" in _run(site, "store", "cat", other)
    finally:
        site.close()
