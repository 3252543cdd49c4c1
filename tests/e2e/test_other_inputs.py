"""Standard input, pipes, Unix sockets and syslog, from programs that are not ours, to a store."""

import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.processes import free_port
from tests.conftest import unavailable
from tests.support.installation import Installation, command

pytestmark = pytest.mark.process


class Inputs:
    """A host whose agent reads every kind of input, and its receiver."""

    def __init__(self, root: Path, tls: Path) -> None:
        self.pipe, self.stream, self.datagram = root / "pipe", root / "s.sock", root / "d.sock"
        self.udp, self.tcp, self.secure = free_port(), free_port(), free_port()
        self.tls = tls
        tables = (
            f'[[pipe]]\npath = "{self.pipe}"\n[[socket]]\npath = "{self.stream}"\n'
            f'[[socket]]\npath = "{self.datagram}"\nkind = "datagram"\n'
            f'[[syslog]]\nlisten = "127.0.0.1:{self.udp}"\nprotocol = "udp"\n'
            f'[[syslog]]\nlisten = "127.0.0.1:{self.tcp}"\nprotocol = "tcp"\n'
            f'[[syslog]]\nlisten = "127.0.0.1:{self.secure}"\nprotocol = "tls"\n[syslog.tls]\n'
            f'ca = "{tls}/ca.pem"\ncert = "{tls}/server.pem"\nkey = "{tls}/server.key"\n'
        )
        self.system = Installation(root, tls, agent_extra=tables)
        self.receiver = self.system.receiver()
        self.agent = self.system.agent()

    def delivered(self) -> dict[str, bytes]:
        """End both; return what was stored, by the input's name without its directory."""
        assert self.agent.terminate(60) == 0, self.agent.said()
        assert self.receiver.terminate() == 0, self.receiver.said()
        assert "Traceback" not in self.agent.said()
        sources = self.system.ledger().sources.values()
        return {Path(source.path).name: source.data for source in sources}


@pytest.fixture
def inputs(tmp_path: Path, certificates: Path) -> Iterator[Inputs]:
    opened = Inputs(tmp_path, certificates)
    yield opened
    opened.system.close()


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        unavailable(f"no {name} on this machine")
    return found


def test_every_input_takes_what_programs_send_and_a_stop_loses_none_of_it(inputs: Inputs) -> None:
    lines = b"".join(b"line %d\n" % n for n in range(1000))
    # writers of a pipe come and go
    for start in (0, 400, 700):
        with inputs.pipe.open("wb") as pipe:
            pipe.write(b"".join(lines.splitlines(keepends=True)[start : start + 300]))
    with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as other:
        one.connect(str(inputs.stream))
        other.connect(str(inputs.stream))
        one.sendall(b"of one\nhalf")
        other.sendall(b"of the other\n")
        time.sleep(0.3)
        one.sendall(b" a line\nlast")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
        local.connect(str(inputs.datagram))
        local.send(b"a datagram\nof two lines")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.sendto(b"<13>by udp", ("127.0.0.1", inputs.udp))
    with socket.create_connection(("127.0.0.1", inputs.tcp)) as tcp:
        tcp.sendall(b"<13>by tcp\n13 <13>counted\nx")
    context = ssl.create_default_context(cafile=f"{inputs.tls}/ca.pem")
    context.load_cert_chain(f"{inputs.tls}/client.pem", f"{inputs.tls}/client.key")
    plain = socket.create_connection(("127.0.0.1", inputs.secure))
    with context.wrap_socket(plain, server_hostname="localhost") as secure:
        secure.sendall(b"10 <13>by tls")

    delivered = inputs.delivered()
    assert delivered.pop("pipe") == b"".join(
        b"line %d\n" % n for start in (0, 400, 700) for n in range(start, start + 300)
    )
    assert sorted(delivered.pop("s.sock").splitlines()) == [
        b"half a line",
        b"last",
        b"of one",
        b"of the other",
    ]
    assert delivered == {
        "d.sock": b"a datagram\nof two lines\n",
        f"syslog:udp:127.0.0.1:{inputs.udp}": b"<13>by udp\n",
        f"syslog:tcp:127.0.0.1:{inputs.tcp}": b"<13>by tcp\n<13>counted\nx\n",
        f"syslog:tls:127.0.0.1:{inputs.secure}": b"<13>by tls\n",
    }


def test_logger_is_understood_over_all_that_it_speaks(inputs: Inputs) -> None:
    logger = tool("logger")
    host = ["-n", "127.0.0.1"]
    ways = {
        f"syslog:udp:127.0.0.1:{inputs.udp}": [*host, "-d", "-P", str(inputs.udp), "--rfc3164"],
        f"syslog:tcp:127.0.0.1:{inputs.tcp}": [*host, "-T", "-P", str(inputs.tcp), "--rfc5424"],
        "d.sock": ["-u", str(inputs.datagram), "--socket-errors=on"],
    }
    for way in ways.values():
        for n in range(20):
            subprocess.run([logger, *way, "-t", "it", f"message {n}"], check=True, timeout=10)
    counted = [*host, "-T", "-P", str(inputs.tcp), "--octet-count", "-t", "it", "counted"]
    subprocess.run([logger, *counted], check=True, timeout=10)

    delivered = inputs.delivered()
    for name in ways:
        found = delivered[name].splitlines()
        assert all(line.startswith(b"<13>") for line in found)
        assert all(any(b"message %d" % n in line for line in found) for n in range(20)), name
    assert delivered[f"syslog:tcp:127.0.0.1:{inputs.tcp}"].splitlines()[-1].endswith(b"counted")


@pytest.mark.parametrize("framing", ["traditional", "octet-counted"])
def test_rsyslog_forwards_a_file_and_nothing_is_missing(
    inputs: Inputs, tmp_path: Path, framing: str
) -> None:
    rsyslogd = tool("rsyslogd")
    work = tmp_path / "rsyslog"
    work.mkdir()
    source = work / "app.txt"
    source.write_bytes(b"".join(b"event %05d\n" % n for n in range(5000)))
    config = work / "rsyslog.conf"
    config.write_text(
        f'global(workDirectory="{work}")\nmodule(load="imfile")\n'
        f'input(type="imfile" file="{source}" tag="app:")\n'
        f'action(type="omfwd" target="127.0.0.1" port="{inputs.tcp}" protocol="tcp" '
        f'TCP_Framing="{framing}" template="RSYSLOG_SyslogProtocol23Format")\n'
    )
    daemon = subprocess.Popen(
        [rsyslogd, "-n", "-f", str(config), "-i", str(work / "pid")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        inputs.system.await_acknowledged(5000 * len("<13>event 00000\n"))
        time.sleep(1)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(20)
    found = inputs.delivered()[f"syslog:tcp:127.0.0.1:{inputs.tcp}"].splitlines()
    events = [line.rpartition(b" event ")[2] for line in found if b" event " in line]
    assert events == [b"%05d" % n for n in range(5000)]


def test_the_end_of_standard_input_is_the_end_of_the_agent(
    tmp_path: Path, certificates: Path
) -> None:
    system = Installation(tmp_path, certificates)
    config = tmp_path / "agent.toml"
    text = config.read_text()
    start, end = text.index("[[input]]"), text.index("[output]")
    config.write_text(f"{text[:start]}[stdin]\n\n{text[end:]}")
    receiver = system.receiver()
    try:
        app = subprocess.Popen(
            [sys.executable, "-c", "for n in range(200_000): print('line', n)"],
            stdout=subprocess.PIPE,
        )
        agent = subprocess.run(
            command("agent", "run", "--config", str(config)),
            stdin=app.stdout,
            capture_output=True,
            timeout=100,
            check=False,
        )
        app.wait(10)
        assert agent.returncode == 0, agent.stderr.decode()
        assert receiver.terminate() == 0
        (source,) = system.ledger().sources.values()
        assert source.data == b"".join(b"line %d\n" % n for n in range(200_000))
        assert (source.path, source.ended) == ("stdin", "shipped")
        assert os.listdir(tmp_path / "agent" / "spool")
    finally:
        system.close()
