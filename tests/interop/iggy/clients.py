"""Iggy's own Python clients, unchanged, each in a process and an environment of its own.

Three versions are three packages that exclude each other. Their environments are made once, in
~/.cache/logdrive-peers. `driver.py` is the program that runs in them.
"""

import contextlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.environments import make_environment

_DRIVER = Path(__file__).with_name("driver.py")
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "logdrive-peers"
_ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class StockClient:
    """A published client: *package*==*version*, called as *kind* says (see `driver.KINDS`).

    *first* is the number of a topic's first partition for it.
    """

    package: str
    version: str
    kind: str
    revision: str
    first: int = 0

    def __str__(self) -> str:
        return f"{self.package}-{self.version}"


IGGY_PY = StockClient("iggy-py", "0.4.0", "iggy-py", "R1", first=1)
CLASSIC = StockClient("apache-iggy", "0.8.0", "apache-iggy-classic", "R2c")
VSR = StockClient("apache-iggy", "0.9.0", "apache-iggy-vsr", "R3")
ALL = (IGGY_PY, CLASSIC, VSR)


class ClientError(Exception):
    """The client raised an error; the text is its own."""


def python_with(client: StockClient) -> Path:
    """Return the Python of an environment that has *client*; it is made if there is none."""
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    directory = _CACHE / f"{client}-{version}"
    python = directory / "bin" / "python"
    if not python.exists():
        _make(client, directory)
    return python


def _make(client: StockClient, directory: Path) -> None:
    """Make the environment beside its place and move it there: another process may do the same."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=directory.parent))
    try:
        make_environment(made, f"{client.package}=={client.version}")
        with contextlib.suppress(OSError):  # the other process was first
            made.rename(directory)
    finally:
        shutil.rmtree(made, ignore_errors=True)


class Driven:
    """A client in a process of its own, connected to *address*, not logged in."""

    def __init__(self, client: StockClient, address: str) -> None:
        self.client = client
        self._process = subprocess.Popen(
            [str(python_with(client)), str(_DRIVER), client.kind, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._errors: list[bytes] = []
        self._threads = [
            threading.Thread(target=self._read_answers, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def call(self, name: str, *args: object, **named: object) -> Any:
        """Call a method of the driver. Raises `ClientError`."""
        return self.result_of(self.begin(name, *args, **named))

    def begin(self, name: str, *args: object, **named: object) -> str:
        """Call a method without waiting for its answer; they come in order: see `result_of`."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"call": name, "args": args, "with": named}).encode() + b"\n")
        stdin.flush()
        return name

    def result_of(self, name: str) -> Any:
        """Return the answer to the oldest call that has none; *name* is for messages."""
        try:
            line = self._answers.get(timeout=_ANSWER_SECONDS)
        except queue.Empty:
            raise AssertionError(f"{self.client}: no answer to {name}\n{self._said()}") from None
        if not line:
            raise AssertionError(f"{self.client} ended in {name}:\n{self._said()}")
        answer: dict[str, Any] = json.loads(line)  # ids are longer than what orjson takes
        if "error" in answer:
            raise ClientError(answer["error"])
        return answer["value"]

    def send(self, stream: str, topic: str, partition: int, payloads: list[bytes]) -> None:
        """Send to *partition*, counted from 0."""
        texts = [payload.hex() for payload in payloads]
        self.call("send", stream, topic, partition + self.client.first, texts)

    def poll(
        self, stream: str, topic: str, partition: int, strategy: str, **named: object
    ) -> list[dict[str, Any]]:
        """Poll *partition*, counted from 0; payloads are bytes."""
        found = self.call("poll", stream, topic, partition + self.client.first, strategy, **named)
        return [message | {"payload": bytes.fromhex(message["payload"])} for message in found]

    def payloads(self, stream: str, topic: str, partition: int = 0) -> list[bytes]:
        """Return all payloads of a partition, in order."""
        found: list[bytes] = []
        while True:
            batch = self.poll(
                stream, topic, partition, "Offset", value=len(found), count=1000, commit=False
            )
            if not batch:
                return found
            found += [message["payload"] for message in batch]

    def kill(self) -> None:
        """End the process as SIGKILL does."""
        self._process.kill()
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors += self._process.stderr

    def _said(self) -> str:
        return b"".join(self._errors).decode(errors="replace")[-4000:]


@contextlib.contextmanager
def logged_in(
    client: StockClient, address: str, user: str = "iggy", password: str = "iggy"
) -> Iterator[Driven]:
    """A client that is connected and logged in."""
    with Driven(client, address) as driven:
        driven.call("connect")
        driven.call("login", user, password)
        yield driven
