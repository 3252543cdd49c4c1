"""A store with an Iggy face on loopback, in a process of its own: `logdrive store run`.

with IggyFace(directory) as face:
    face.port
    face.kill()  # as SIGKILL does
    face.start()  # with the same port and the same store

Iggy's older Python clients hold the interpreter while they wait: their server must not be in
their process, and they should not be in ours (see `tests/interop/iggy`).
"""

import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.installation import Process, free_port

USER = PASSWORD = "iggy"
_START_SECONDS = 30.0
_PING = bytes.fromhex("0400000001000000")
_PONG = bytes(8)


class IggyFace:
    """The store in *directory*/store, served to Iggy's clients in the `with` block.

    *table* are more lines of [listen.iggy]; *more* are other tables of store.toml.
    """

    def __init__(self, directory: Path, table: str = "", more: str = "") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.pravega_port = free_port()
        self._directory = directory
        self._process: Process | None = None
        self._is_plain = ".tls]" not in more
        (directory / "store.toml").write_text(
            f'[store]\npath = "{directory}/store"\n'
            f'[listen.pravega]\naddress = "127.0.0.1:{self.pravega_port}"\n'
            f'[listen.iggy]\naddress = "127.0.0.1:{self.port}"\n{table}\n{more}\n'
        )

    @property
    def address(self) -> str:
        """Host and port, as clients take them."""
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until it answers a ping; with TLS, until it listens."""
        arguments = ["store", "run", "--config", str(self._directory / "store.toml")]
        self._process = process = Process("store", arguments, self._directory / "store.out")
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and process.running():
            if self._answers():
                return
            time.sleep(0.05)
        raise AssertionError(f"the store does not listen:\n{process.said()}")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as probe:
                if not self._is_plain:
                    return True
                probe.sendall(_PING)
                return probe.recv(len(_PONG), socket.MSG_WAITALL) == _PONG
        except OSError:
            return False

    def kill(self) -> None:
        """End it as SIGKILL does; harmless where it has ended."""
        if self._process is not None:
            self._process.kill()

    def stop(self) -> int:
        """End it as SIGTERM does; return its exit code."""
        assert self._process is not None, "not started"
        return self._process.terminate()

    def said(self) -> str:
        """Return the end of what the process wrote."""
        return self._process.said() if self._process is not None else ""

    def check_running(self) -> None:
        """Raise AssertionError if it has ended by itself."""
        assert self._process is not None, "not started"
        assert self._process.running(), self._process.said()
