"""SIGKILL of a store that two receivers share, and of the receivers, while an agent delivers:
nothing lost or doubled (D2, D3, S1, S2).

Real processes, real TLS, a real disk; the judge reads the segments afterwards.
"""

import asyncio
import random
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from bench.processes import free_port
from tests.faults.test_sigkill import Writer
from tests.support.installation import STREAM, Process, command, read_segments
from tests.support.ledger import Ledger

pytestmark = pytest.mark.process

_KILLS = 12
_HOSTS = ("east", "west")
_KINDS = {"store": "store", "east": "receiver", "west": "receiver", "agent": "agent"}


class Site:
    """A store, two receivers and an agent that knows both, below one directory."""

    def __init__(self, root: Path, tls: Path) -> None:
        self.root, self.tls, self.logs, self.store = root, tls, root / "logs", root / "store"
        self.logs.mkdir()
        self.ports = {name: free_port() for name in ("store", *_HOSTS)}
        self.processes: dict[str, Process] = {}
        server = f'ca = "{tls}/ca.pem"\ncert = "{tls}/server.pem"\nkey = "{tls}/server.key"\n'
        client = f'ca = "{tls}/ca.pem"\ncert = "{tls}/client.pem"\nkey = "{tls}/client.key"\n'
        address = f'address = "127.0.0.1:{self.ports["store"]}"'
        (root / "store.toml").write_text(
            f'[store]\npath = "{self.store}"\n[listen.pravega]\n{address}\n'
            f"[listen.pravega.tls]\n{server}"
        )
        for host in _HOSTS:
            (root / f"{host}.toml").write_text(
                f'[listen]\naddress = "127.0.0.1:{self.ports[host]}"\n[listen.tls]\n{server}'
                f'[sink]\nuri = "pravega://localhost:{self.ports["store"]}/{STREAM}"\n'
                f"[sink.tls]\n{client}"
            )
        hosts = ", ".join(f'"localhost:{self.ports[host]}"' for host in _HOSTS)
        (root / "agent.toml").write_text(
            f'[agent]\nid = "test-agent"\nstate_dir = "{root}/state"\ndrain_seconds = 60\n'
            f'[[input]]\npaths = ["{self.logs}/*.log*"]\n[output]\nhosts = [{hosts}]\n'
            f"[output.tls]\n{client}"
        )

    def start(self, name: str) -> None:
        arguments = [_KINDS[name], "run", "--config", str(self.root / f"{name}.toml")]
        self.processes[name] = Process(name, arguments, self.root / f"{name}.out")

    def listens(self, *names: str) -> None:
        """Wait until *names* take connections: a receiver does so once it has found the store."""
        until = time.monotonic() + 30
        for name in names:
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", self.ports[name])) == 0:
                        break
                assert time.monotonic() < until, self.processes[name].said()
                time.sleep(0.05)

    def ship(self, host: str) -> dict[str, Any]:
        """Ship all files once more, through *host*."""
        files = map(str, sorted(self.logs.iterdir()))
        return self.told(
            "agent", "ship", *files, "--to", f"localhost:{self.ports[host]}", "--id", "test-agent"
        )

    def listed(self) -> dict[str, Any]:
        """List the stream where the store serves it."""
        return self.told("store", "ls", f"pravega://localhost:{self.ports['store']}/{STREAM}")

    def told(self, *arguments: str) -> dict[str, Any]:
        """Return what a command prints with --json, connected by TLS."""
        tls = [
            f"--{name}={self.tls / file}"
            for name, file in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
        ]
        done = subprocess.run(
            command(*arguments, *tls, "--json"), capture_output=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr.decode()
        result: dict[str, Any] = orjson.loads(done.stdout)
        return result

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()


@pytest.fixture
def site(tmp_path: Path, certificates: Path) -> Iterator[Site]:
    made = Site(tmp_path, certificates)
    yield made
    made.close()


def test_a_shared_store_and_its_receivers_killed_at_random__D2_D3_S1_S2(site: Site) -> None:
    pick, writer = random.Random(7), Writer(site.logs, 4)
    for name in ("east", "west", "store"):  # receivers wait for the store
        site.start(name)
    site.listens("store", *_HOSTS)
    site.start("agent")
    for kill in range(_KILLS):
        until = time.monotonic() + pick.uniform(0.3, 1.2)
        while time.monotonic() < until:
            writer.write(400)
            time.sleep(0.03)
        victim = "store" if kill % 2 else pick.choice(_HOSTS)
        site.processes[victim].kill()
        writer.write(200)
        site.start(victim)
    site.listens("store", *_HOSTS)
    assert site.processes["agent"].terminate(90) == 0, site.processes["agent"].said()
    output = site.processes["agent"].said()
    # both know what is stored, whoever received it
    assert [site.ship(host)["bytes"] for host in _HOSTS] == [0, 0], output
    events = sum(segment["events"] for segment in site.listed()["segments"])
    for name in (*_HOSTS, "store"):
        assert site.processes[name].terminate() == 0, site.processes[name].said()
    ledger = Ledger.read(asyncio.run(read_segments(str(site.store))))
    assert set(ledger.by_data()) == writer.contents()
    assert events == sum(delivered.events for delivered in ledger.sources.values())
    assert len(ledger.sources) == len(writer.contents()), "a file was delivered under two names"
