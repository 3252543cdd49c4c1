"""logdrive's command line, as benchmarks start it and as they look at what it has stored."""

import filecmp
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.certificates import Certificates
from bench.processes import BenchmarkError, Child

LOGDRIVE = (sys.executable, "-m", "logdrive.cli.main")
"""What a command begins with: this interpreter, so that any environment with logdrive in it will
do.
"""
IN_PYTHON: Mapping[str, str] = {"LOGDRIVE_LOOPS": "plain"}
"""What the environment has to have for the loops in Python."""

_RECEIVER = """
[listen]
address = "127.0.0.1:{port}"
[listen.tls]
ca = "{tls.ca}"
cert = "{tls.server_cert}"
key = "{tls.server_key}"
[sink]
uri = "{uri}"
"""


def receiver_config(tls: Certificates, port: int, uri: str) -> str:
    """Return a receiver.toml with nothing in it but what has to be."""
    return _RECEIVER.format(tls=tls, port=port, uri=uri)


def output_of(command: Sequence[str | Path], work: Path) -> bytes:
    """Return what a command of logdrive prints. Raises `BenchmarkError` if it fails."""
    with (work / "output").open("w+b") as output:
        child = Child([*LOGDRIVE, *command], log=work / "command.err", stdout=output)
        usage = child.wait(600)
        if usage.code != 0:
            raise BenchmarkError(
                f"{command[0]} {command[1]} ended with {usage.code}: {child.said()}"
            )
        output.seek(0)
        return output.read()


def demand_same_text(uri: str, logs: Sequence[Path], work: Path) -> None:
    """Raise `BenchmarkError` unless the stream *uri* has each of *logs* whole, and nothing else.

    Segments are printed one after the other, so the files may come in another order.
    """
    copy = work / "printed"
    with copy.open("wb") as output:
        printing = Child([*LOGDRIVE, "store", "cat", uri], log=work / "cat.err", stdout=output)
        usage = printing.wait(600)
    if usage.code != 0:
        raise BenchmarkError(f"store cat ended with {usage.code}: {printing.said()}")
    for order in (logs, list(reversed(logs))):
        whole = work / "expected"
        with whole.open("wb") as output:
            subprocess.run(["cat", *order], stdout=output, check=True, timeout=600)
        if filecmp.cmp(whole, copy, shallow=False):
            return
    raise BenchmarkError(
        f"the store holds {copy.stat().st_size} bytes that are not the "
        f"{sum(log.stat().st_size for log in logs)} shipped"
    )
