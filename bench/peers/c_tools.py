"""The C tools: igzip -1 | openssl s_client -> openssl s_server | igzip -d | dd conv=fdatasync,
mutual TLS 1.3 on loopback.

They get what is framed already; they neither validate nor acknowledge. It is the mark for how fast
this machine's own compressor, TLS and disk are together, in five processes on its cores.
"""

import contextlib
import filecmp
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.certificates import Certificates
from bench.processes import (
    BenchmarkError,
    Child,
    demand_success,
    family,
    free_port,
    wait_all,
    wait_for_listener,
)

INSTALL = "apt-get install isal openssl coreutils"
_TOOLS = ("igzip", "openssl", "dd")


def missing() -> str | None:
    """Return what this machine lacks and how to install it, None where nothing."""
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"no {', '.join(absent)} here: {INSTALL}" if absent else None


@dataclass(frozen=True, slots=True)
class Passage:
    """What the pipeline took for one file."""

    seconds: float  # until dd had synced
    sender_cpu: float  # seconds of the processes on that side
    receiver_cpu: float


def carry(payload: Path, work: Path, certificates: Certificates, seconds: float) -> Passage:
    """Send *payload* through the pipeline into a file in *work*, and compare the two.

    The receiving half listens before the clock starts; the clock stops when dd has ended. The copy
    is removed.
    """
    log, copy, port = work / "c_tools.err", work / "c_tools.out", free_port()
    log.unlink(missing_ok=True)
    to_disk = ["dd", f"of={copy}", "bs=1M", "iflag=fullblock", "conv=fdatasync", "status=none"]
    try:
        with family() as children, _silence() as silence:
            receivers = _chain(
                [tls_server(port, certificates), ["igzip", "-d", "-c"], to_disk],
                log,
                silence,
                children,
            )
            wait_for_listener(port, receivers[0])
            began = time.monotonic()
            senders = _chain(
                [["igzip", "-1", "-c", payload], _client(port, certificates)],
                log,
                silence,
                children,
            )
            wait_all(children, seconds)
            demand_success(children)
        if not filecmp.cmp(payload, copy, shallow=False):
            raise BenchmarkError(
                f"the C tools delivered {copy.stat().st_size} bytes that are not the "
                f"{payload.stat().st_size} sent"
            )
    finally:
        copy.unlink(missing_ok=True)
    ended = receivers[-1].usage
    assert ended is not None
    return Passage(ended.ended - began, _cpu(senders), _cpu(receivers))


def compress(payload: Path, work: Path, seconds: float) -> float:
    """Return the CPU seconds that igzip takes to compress *payload*, as in the pipeline.

    Nothing reads what it writes.
    """
    with family() as children:
        igzip = Child(["igzip", "-1", "-c", payload], log=work / "c_tools.err")
        children.append(igzip)
        igzip.wait(seconds)
        demand_success(children)
        return igzip.cpu_seconds()


def _tls(mode: str, ca: Path, cert: Path, key: Path) -> list[str | Path]:
    return [
        "openssl",
        mode,
        "-tls1_3",
        "-CAfile",
        ca,
        "-verify_return_error",
        "-cert",
        cert,
        "-key",
        key,
        "-quiet",
    ]


def tls_server(port: int, made: Certificates) -> list[str | Path]:
    """Return the command of a TLS server that prints what one client sends."""
    return [
        *_tls("s_server", made.ca, made.server_cert, made.server_key),
        "-accept",
        f"127.0.0.1:{port}",
        "-naccept",
        "1",
        "-Verify",
        "1",
    ]


def _client(port: int, made: Certificates) -> list[str | Path]:
    # -quiet alone would make s_client ignore the end of its input, and a line that begins with Q or
    # R would be a command
    return [
        *_tls("s_client", made.ca, made.client_cert, made.client_key),
        "-connect",
        f"127.0.0.1:{port}",
        "-no_ign_eof",
        "-nocommands",
    ]


def _cpu(children: Sequence[Child]) -> float:
    return sum(child.cpu_seconds() for child in children)


@contextlib.contextmanager
def _silence() -> Iterator[int]:
    """Yield a standard input that brings nothing and does not end.

    s_server sends what it reads from its own.
    """
    reading, writing = os.pipe()
    try:
        yield reading
    finally:
        os.close(reading)
        os.close(writing)


def _chain(
    commands: Sequence[Sequence[str | Path]], log: Path, first: int, children: list[Child]
) -> list[Child]:
    """Start *commands* as a pipeline that reads *first*; add them to *children*."""
    chain: list[Child] = []
    reading = first
    for command in commands:
        last = len(chain) == len(commands) - 1
        child = Child(
            command, log=log, stdin=reading, stdout=subprocess.DEVNULL if last else subprocess.PIPE
        )
        if chain:
            chain[-1].output.close()  # the pipe now belongs to the two processes alone
        chain.append(child)
        children.append(child)
        if not last:
            reading = child.output.fileno()
    return chain
