"""A receiver with a store of its own and an agent that ships to it, as benchmarks of agents start
them.
"""

import contextlib
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.commands import LOGDRIVE, receiver_config
from bench.measure import Setting
from bench.processes import BenchmarkError, Child, family, free_port, wait_for_listener

_LOOK_SECONDS: Final = 0.02

_AGENT = """
[agent]
id = "bench"
state_dir = "{home}/state"
[[input]]
paths = ["{paths}"]
{keys}
[output]
hosts = ["127.0.0.1:{port}"]
{output}
"""
_TLS = """[output.tls]
ca = "{tls.ca}"
cert = "{tls.client_cert}"
key = "{tls.client_key}"
server_name = "localhost"
"""


@dataclass
class Programs:
    """Both programs below *home*; the agent is started by `start_agent`."""

    home: Path
    port: int
    setting: Setting
    children: list[Child]
    receiver: Child

    @property
    def logs(self) -> Path:
        """The directory whose files are shipped."""
        return self.home / "logs"

    @property
    def stream(self) -> str:
        """The stream that they are shipped to, once both programs have ended."""
        return f"file://{self.home}/store#bench/files"

    def start_agent(self, *, keys: str = "", paths: str = "", plain_port: int = 0) -> Child:
        """Start the agent with other *paths*, and further *keys* of its input.

        With *plain_port* it connects to that one, without TLS.
        """
        output = 'tls = "off"' if plain_port else _TLS.format(tls=self.setting.certificates)
        config = _AGENT.format(
            home=self.home,
            paths=paths or f"{self.logs}/*.log*",
            keys=keys,
            port=plain_port or self.port,
            output=output,
        )
        (self.home / "agent.toml").write_text(config)
        agent = Child(
            [*LOGDRIVE, "agent", "run", "--config", self.home / "agent.toml"],
            log=self.home / "agent.err",
        )
        self.children.append(agent)
        return agent

    def end(self, child: Child, seconds: float = 120) -> None:
        """Let *child* end in order. Raises `BenchmarkError` if it fails."""
        child.ask_to_end()
        usage = child.wait(seconds)
        if usage.code != 0:
            raise BenchmarkError(f"{child.name} ended with {usage.code}: {child.said()}")


@contextlib.contextmanager
def programs(setting: Setting, name: str, *, tls: bool = True) -> Iterator[Programs]:
    """Start a receiver in a new directory *name*; all is ended and removed afterwards."""
    home = setting.work / name
    shutil.rmtree(home, ignore_errors=True)
    (home / "logs").mkdir(parents=True)
    try:
        port = free_port()
        config = receiver_config(setting.certificates, port, f"file://{home}/store#bench/files")
        if not tls:
            before, _, rest = config.partition("[listen.tls]")
            config = f'{before}tls = "off"\n[sink]{rest.partition("[sink]")[2]}'
        (home / "receiver.toml").write_text(config)
        with family() as children:
            receiver = Child(
                [*LOGDRIVE, "receiver", "run", "--config", home / "receiver.toml"],
                log=home / "receiver.err",
            )
            children.append(receiver)
            wait_for_listener(port, receiver, 60)
            yield Programs(home, port, setting, children, receiver)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def wait_until_told(agent: Child, words: bytes, seconds: float) -> None:
    """Return once *agent* has said *words*. Raises `BenchmarkError` if that takes too long."""
    until = time.monotonic() + seconds
    while words not in agent.log.read_bytes():
        if agent.poll() is not None or time.monotonic() > until:
            raise BenchmarkError(f"the agent did not get there: {agent.said() or 'no word'}")
        time.sleep(_LOOK_SECONDS)


def resident_mb(child: Child) -> float:
    """Return the memory that *child* holds now (`VmRSS`), in MB."""
    status = Path(f"/proc/{child.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6
