"""What a benchmarked process took is the kernel's word, and none is left behind."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.certificates import certificates
from bench.lines import log_file
from bench.peers import c_tools, rsyslog
from bench.processes import BenchmarkError, Child, family, free_ports, read_bytes, wait_all
from tests.conftest import unavailable

pytestmark = pytest.mark.process

_BURN = "import time\nwhile time.process_time() < 0.3: pass"
_HOLD = "import time; x = bytearray(64 << 20); time.sleep(0.3)"


def _need(missing: object) -> None:
    if missing is not None:
        unavailable(str(missing))


def test_cpu_and_memory_are_those_of_the_process(tmp_path: Path) -> None:
    with family() as children:
        children += [
            Child([sys.executable, "-c", code], log=tmp_path / "log") for code in (_BURN, _HOLD)
        ]
        burnt, held = wait_all(children, 30)
    assert burnt.code == held.code == 0
    assert 0.3 <= burnt.cpu_seconds < 3
    assert held.peak_rss >= 64 << 20 > burnt.peak_rss


def test_bytes_read_are_those_of_the_process_so_far(tmp_path: Path) -> None:
    payload = tmp_path / "payload"
    payload.write_bytes(bytes(16 << 20))
    code = (
        f"import sys, time; open({str(payload)!r}, 'rb').read(); print(flush=True); time.sleep(60)"
    )
    with family() as children:
        child = Child([sys.executable, "-c", code], log=tmp_path / "log", stdout=subprocess.PIPE)
        children.append(child)
        assert child.output.readline() == b"\n"
        assert 16 << 20 <= read_bytes(child.pid) < 24 << 20


def test_a_run_leaves_no_process_behind(tmp_path: Path) -> None:
    with family() as children:
        child = Child(["sleep", "60"], log=tmp_path / "log")
        children.append(child)
        with pytest.raises(BenchmarkError, match="not ended within"):
            child.wait(0.1)
    assert child.usage is not None
    assert child.usage.code < 0


def test_the_c_tools_deliver_every_byte_even_lines_that_look_like_commands(tmp_path: Path) -> None:
    _need(c_tools.missing())
    payload = tmp_path / "payload"
    payload.write_bytes(b"Q\nR\nk\nB\n" * 50_000 + log_file(tmp_path, 5_000).read_bytes())
    passage = c_tools.carry(payload, tmp_path, certificates(tmp_path / "certs"), 30)
    assert passage.seconds > 0
    assert passage.sender_cpu > 0 < passage.receiver_cpu


def test_igzip_alone_takes_processor_time_and_writes_nothing(tmp_path: Path) -> None:
    _need(c_tools.missing())
    log = log_file(tmp_path, 50_000)
    assert c_tools.compress(log, tmp_path, 30) > 0
    assert {path.name for path in tmp_path.iterdir()} == {log.name, "c_tools.err"}


def test_rsyslog_delivers_every_line(tmp_path: Path) -> None:
    _need(rsyslog.missing())
    passage = rsyslog.carry(
        log_file(tmp_path, 5_000), tmp_path, certificates(tmp_path / "certs"), 60
    )
    assert passage.seconds > 0
    assert passage.sender_rss > 0 < passage.receiver_rss


def test_a_free_port_is_none_that_the_kernel_gives_to_connections() -> None:
    given = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < max(given, 20_000)
