"""rsyslog: imfile -> omrelp/TLS -> imrelp -> omfile, mutual TLS on loopback, tuned as well as we
know how.

RELP acknowledges, like Lumberjack, but rsyslog's receiver does so with the message in memory: it
promises less than an acknowledgement after fdatasync. What made it fastest: a window of 16,384, a
queue in memory before the sending action and in no other place, large batches, one large buffer
before the file.
"""

import contextlib
import filecmp
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from bench.certificates import Certificates
from bench.processes import BenchmarkError, Child, family, free_port, wait_for_listener

INSTALL = "apt-get install rsyslog rsyslog-relp rsyslog-gnutls"
_POLL_SECONDS = 0.01

_RECEIVER = """
global(workDirectory="{work}" maxMessageSize="64k")
main_queue(queue.type="Direct")
module(load="imrelp" tls.tlslib="{library}")
template(name="line" type="string" string="%msg:2:$%\\n")
ruleset(name="keep") {{ action(type="omfile" file="{copy}" template="line" ioBufferSize="1m") }}
input(type="imrelp" port="{port}" address="127.0.0.1" ruleset="keep" maxDataSize="64k"
      tls="on" tls.caCert="{ca}" tls.myCert="{server_cert}"
      tls.myPrivKey="{server_key}" tls.authMode="certvalid")
"""

_SENDER = """
global(workDirectory="{work}" maxMessageSize="64k")
main_queue(queue.type="Direct")
module(load="imfile" mode="inotify")
module(load="omrelp" tls.tlslib="{library}")
input(type="imfile" file="{log}" tag="nginx" readMode="0")
action(type="omrelp" target="127.0.0.1" port="{port}" windowSize="16384"
       queue.type="FixedArray" queue.size="200000"
       queue.dequeueBatchSize="4096" tls="on" tls.caCert="{ca}" tls.myCert="{client_cert}"
       tls.myPrivKey="{client_key}" tls.authMode="certvalid")
"""


def missing() -> str | None:
    """Return what this machine lacks and how to install it, None where nothing."""
    daemon = _daemon()
    modules = [
        name
        for name in ("imrelp.so", "omrelp.so", "imfile.so")
        if not any(Path("/usr/lib").glob(f"*/rsyslog/{name}"))
    ]
    absent = (["rsyslogd"] if daemon is None else []) + modules
    return f"no {', '.join(absent)} here: {INSTALL}" if absent else None


def _daemon() -> str | None:
    return shutil.which("rsyslogd") or shutil.which("rsyslogd", path="/usr/sbin:/sbin")


@dataclass(frozen=True, slots=True)
class Passage:
    """What the two daemons took for one file."""

    seconds: float  # from the sender's start until the receiver's file was whole
    sender_cpu: float  # seconds
    receiver_cpu: float
    sender_rss: int  # most bytes of memory
    receiver_rss: int


def carry(
    log: Path, work: Path, certificates: Certificates, seconds: float, library: str = "gnutls"
) -> Passage:
    """Send *log* from a new sender to a new receiver, and compare what arrived byte by byte."""
    home = work / "rsyslog"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    copy, port = home / "lines", free_port()
    for name, form in (("receiver", _RECEIVER), ("sender", _SENDER)):
        state = home / name
        state.mkdir()
        values = {
            field: getattr(certificates, field)
            for field in ("ca", "server_cert", "server_key", "client_cert", "client_key")
        }
        (home / f"{name}.conf").write_text(
            form.format(work=state, library=library, port=port, copy=copy, log=log, **values)
        )
    try:
        with family() as children:
            receiver = _start("receiver", home, children)
            wait_for_listener(port, receiver)
            began = time.monotonic()
            sender = _start("sender", home, children)
            ended = _whole(copy, log.stat().st_size, began + seconds, (sender, receiver))
            passage = Passage(
                ended - began,
                sender.cpu_seconds(),
                receiver.cpu_seconds(),
                sender.peak_rss(),
                receiver.peak_rss(),
            )
        if not filecmp.cmp(log, copy, shallow=False):
            raise BenchmarkError(
                f"rsyslog delivered {copy.stat().st_size} bytes that are not the "
                f"{log.stat().st_size} sent"
            )
        return passage
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _start(name: str, home: Path, children: list[Child]) -> Child:
    daemon = _daemon()
    assert daemon is not None
    child = Child(
        [daemon, "-n", "-f", home / f"{name}.conf", "-i", home / f"{name}.pid"],
        log=home / f"{name}.err",
    )
    children.append(child)
    return child


def _whole(copy: Path, size: int, deadline: float, daemons: tuple[Child, Child]) -> float:
    """Return the moment at which *copy* had *size* bytes."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            if copy.stat().st_size >= size:
                return time.monotonic()
        for daemon in daemons:
            daemon.peak_rss()
            if daemon.poll() is not None:
                raise BenchmarkError(f"rsyslogd ended: {daemon.said()}")
        if time.monotonic() > deadline:
            raise BenchmarkError(
                f"rsyslog had {copy.stat().st_size if copy.exists() else 0} of {size} "
                f"bytes when its time was over: {daemons[0].said()}"
            )
        time.sleep(_POLL_SECONDS)
