"""`logdrive store run` in a process of its own, with one face that clients are tried on."""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.processes import free_port
from tests.support.installation import Process

_START_SECONDS = 30.0


class StoreProcess:
    """The store in *directory*/store, served in the `with` block; it may be started again.

    *table* is the table of the face, in store.toml, with further lines in *lines*; *more* are other
    tables. *answers* says whether the face answers at a port.
    """

    def __init__(
        self,
        directory: Path,
        table: str,
        answers: Callable[[int], bool],
        lines: str = "",
        more: str = "",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.pravega_port = free_port()
        self._answers = answers
        self._directory = directory
        self._process: Process | None = None
        (directory / "store.toml").write_text(
            f'[store]\npath = "{directory}/store"\n'
            f'[listen.pravega]\naddress = "127.0.0.1:{self.pravega_port}"\n'
            f'[{table}]\naddress = "127.0.0.1:{self.port}"\n{lines}\n{more}\n'
        )

    @property
    def store(self) -> str:
        """The store's directory."""
        return str(self._directory / "store")

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
        """Start it and wait until the face answers."""
        arguments = ["store", "run", "--config", str(self._directory / "store.toml")]
        self._process = process = Process("store", arguments, self._directory / "store.out")
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until and process.running():
            if self._answers(self.port):
                return
            time.sleep(0.05)
        raise AssertionError(f"the store does not listen:\n{process.said()}")

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
