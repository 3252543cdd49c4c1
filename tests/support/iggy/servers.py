"""Real Iggy servers of two revisions, on loopback, each in a directory of its own.

    with iggy_server("R1", directory) as server:
        server.port
        server.kill()   # SIGKILL: what was acknowledged may be gone
        server.start()  # on the same directory, at the same port

They were built from Iggy's source and are no part of the project: a test of a real server skips
where there is none, in CI, too. R1 has the user `iggy` with the password `iggy`, R0 has no users.
"""

import contextlib
import lzma
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import pytest

from bench.processes import free_port
from tests.conftest import shared_directory

ServerRevision = Literal["R0", "R1"]
REVISIONS: Final[tuple[ServerRevision, ...]] = ("R0", "R1")
DURABLE: Final = {
    "IGGY_SYSTEM_PARTITION_MESSAGES_REQUIRED_TO_SAVE": "1",
    "IGGY_SYSTEM_PARTITION_ENFORCE_FSYNC": "true",
}
"""Settings with which an acknowledgement is worth something; by default it means "in memory"."""

_PACKED: Final[Mapping[ServerRevision, str]] = {
    "R0": "iggy-server-r0.xz",
    "R1": "iggy-server-0.4.213.xz",
}
_R0_DURABLE: Final = (
    ("messages_required_to_save = 10_000", "messages_required_to_save = 1"),
    ("enforce_fsync = false", "enforce_fsync = true"),
)
_START_SECONDS = 20
_END_SECONDS = 10


def why_no_iggy_server(revision: ServerRevision) -> str:
    """Return why there can be no real server of that revision here, "" if there can."""
    packed = _directory() / _PACKED[revision]
    return "" if packed.is_file() else f"no real Iggy of revision {revision} at {packed}"


def need_iggy_server(revision: ServerRevision) -> None:
    """Skip the test where there is no real server of that revision."""
    if reason := why_no_iggy_server(revision):
        pytest.skip(reason)


@contextlib.contextmanager
def iggy_server(
    revision: ServerRevision, directory: Path, settings: Mapping[str, str] | None = None
) -> Iterator["IggyServer"]:
    """Run a real server with its data in *directory*, which may be new; end it afterwards.

    *settings* are further variables, such as `DURABLE`. Skips the test where there is none.
    """
    need_iggy_server(revision)
    server = IggyServer(revision, directory, settings or {})
    try:
        server.start()
        yield server
    finally:
        server.close()


class IggyServer:
    """A real server; `start` starts it, also again."""

    def __init__(
        self, revision: ServerRevision, directory: Path, settings: Mapping[str, str]
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.revision = revision
        self.port = free_port()
        self._directory = directory
        self._log = directory / "server.out"
        self._binary = _unpacked(revision)
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("IGGY_")},
            "IGGY_TCP_ADDRESS": f"127.0.0.1:{self.port}",
            "IGGY_HTTP_ENABLED": "false",  # it would listen on all addresses
            "IGGY_QUIC_ENABLED": "false",
            "IGGY_SYSTEM_PATH": str(directory / "data"),
            **settings,
        }
        if revision == "R0":
            _write_configuration(directory, durable=DURABLE.items() <= settings.items())

    @property
    def pid(self) -> int:
        """The server's process."""
        assert self._process is not None, "not started"
        return self._process.pid

    def start(self) -> None:
        """Start the server, and wait until it listens."""
        with self._log.open("ab") as output:
            self._process = process = subprocess.Popen(
                [str(self._binary)],
                cwd=self._directory,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError(f"the server does not listen:\n{self.said()}")

    def kill(self) -> None:
        """End the server with SIGKILL."""
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        """End the server with SIGTERM, which lets it save what it has in memory."""
        self._signal(signal.SIGTERM)

    def close(self) -> None:
        """End the server if it runs."""
        if self._process is not None:
            self.kill()

    def said(self) -> str:
        """Return the end of what the server wrote."""
        return self._log.read_text(errors="replace")[-6000:]

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "not started"
        self._process.send_signal(number)
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_END_SECONDS)


def _write_configuration(directory: Path, *, durable: bool) -> None:
    """Write the file that R0 reads from its working directory; variables don't reach all of it."""
    text = (_directory() / "r0" / "configs" / "server.toml").read_text()
    if durable:
        for usual, wanted in _R0_DURABLE:
            assert usual in text
            text = text.replace(usual, wanted)
    (directory / "configs").mkdir(exist_ok=True)
    (directory / "configs" / "server.toml").write_text(text)


def _directory() -> Path:
    return shared_directory() / "peers" / "iggy"


def _unpacked(revision: ServerRevision) -> Path:
    """Return the program, which is unpacked once a machine and kept outside of the checkout."""
    packed = _directory() / _PACKED[revision]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    kept = cache / "logdrive-peers" / f"{packed.stem}-{packed.stat().st_size}"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as unpacked:
            with lzma.open(packed) as source:
                shutil.copyfileobj(source, unpacked)
            Path(unpacked.name).chmod(0o755)
        Path(unpacked.name).replace(kept)  # whole or not there, also beside another test run
    return kept
