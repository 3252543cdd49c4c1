"""Simulated applications of the demo: each writes realistic lines to a log file and rotates it.

Rotation is by rename and create. The applications also count the lines and bytes that they write;
the demo compares these counts with the audit.
"""

import os
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import orjson

_PATHS = (
    "/",
    "/login",
    "/cart",
    "/api/orders",
    "/api/orders/{n}",
    "/static/app.{n}.js",
    "/search?q={n}",
    "/health",
    "/img/{n}.webp",
)
_AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:141.0) Gecko/20100101 Firefox/141.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_1 like Mac OS X) AppleWebKit/605.1.15",
    "curl/8.14.1",
    "kube-probe/1.34",
)
_NAMES = ("web", "orders", "auth", "search", "mailer", "billing")
_START = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


@dataclass(slots=True)
class Application:
    """One program and its log: `NAME.log`, and `NAME.log.1`, `.2` … once it has rotated."""

    name: str
    directory: str
    rotate_bytes: int  # size of the file at which it rotates
    random: random.Random
    size: int = 0  # bytes in the current file
    lines: int = 0  # written so far, to all files
    written: int = 0  # bytes written so far, to all files
    rotations: int = 0
    _descriptor: int = field(default=-1, repr=False)

    @property
    def path(self) -> str:
        """Path of the file that it writes to now."""
        return os.path.join(self.directory, f"{self.name}.log")

    def write_lines(self, count: int) -> None:
        """Append *count* lines in one write, like a buffered logger; rotate a full file first."""
        if self._descriptor < 0 or self.size >= self.rotate_bytes:
            self._rotate()
        data = b"".join(self._line(self.lines + n) for n in range(count))
        os.write(self._descriptor, data)
        self.size += len(data)
        self.written += len(data)
        self.lines += count

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _rotate(self) -> None:
        if self._descriptor >= 0:  # else the first file: there is none to rename
            self.close()
            # from the oldest on, so that none is overwritten
            for number in range(self.rotations, 0, -1):
                os.rename(f"{self.path}.{number}", f"{self.path}.{number + 1}")
            os.rename(self.path, f"{self.path}.1")
            self.rotations += 1
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
        self.size = 0

    def _line(self, number: int) -> bytes:
        at = _START + timedelta(milliseconds=number * 37 + self.random.randrange(30))
        kind = self.random.random()
        if self.name.startswith("web"):
            return self._access_line(at)
        if kind < 0.02:
            return self._stack_trace_line(at, number)
        if self.name.startswith(("orders", "billing")):
            record = {
                "ts": at.isoformat(),
                "level": "INFO",
                "seq": number,
                "msg": "order «stored»",
                "ms": self.random.randrange(900),
                "user": f"u{self.random.randrange(9999)}",
            }
            return orjson.dumps(record) + b"\n"
        pid = self.random.randrange(300, 32000)
        who = f"u{self.random.randrange(999)} from 10.2.{pid % 250}.7"
        return (
            f"{at:%b %d %H:%M:%S} host {self.name}[{pid}]: session {number} opened for user {who}\n"
        ).encode()

    def _access_line(self, at: datetime) -> bytes:
        pick = self.random
        path = pick.choice(_PATHS).format(n=pick.randrange(100_000))
        address = f"10.{pick.randrange(256)}.{pick.randrange(256)}.{pick.randrange(1, 255)}"
        status = pick.choice((200, 200, 200, 200, 304, 301, 404, 500))
        request, size = f"GET {path} HTTP/1.1", pick.randrange(60_000)
        return (
            f'{address} - - [{at:%d/%b/%Y:%H:%M:%S +0000}] "{request}" {status} {size} "-" '
            f'"{pick.choice(_AGENTS)}"\n'
        ).encode()

    def _stack_trace_line(self, at: datetime, number: int) -> bytes:
        waited = self.random.randrange(5000)
        return (
            f"{at:%Y-%m-%d %H:%M:%S},{number % 1000:03d} ERROR [worker-{number % 8}] "
            f"c.e.Pool: no connection in {waited} ms\r\n"
        ).encode()


class Applications:
    """All applications of the demo.

    They write in small bursts, so that rotation, kills and reading interleave.
    """

    def __init__(self, directory: str, *, count: int, lines: int, random_: random.Random) -> None:
        os.makedirs(directory, exist_ok=True)
        rotate_bytes = max(4096, lines * 130 // count // 5)  # about five files an application
        self._random = random_
        self._left = lines
        self.applications = [
            Application(
                f"{_NAMES[n % len(_NAMES)]}-{n // len(_NAMES) + 1}",
                directory,
                rotate_bytes,
                random.Random(random_.random()),
            )
            for n in range(count)
        ]

    @property
    def lines(self) -> int:
        """Lines written so far."""
        return sum(member.lines for member in self.applications)

    @property
    def written(self) -> int:
        """Bytes written so far."""
        return sum(member.written for member in self.applications)

    @property
    def files(self) -> int:
        """Number of files, including rotated ones."""
        return sum(1 + member.rotations for member in self.applications if member.lines)

    def write_burst(self, lines: int) -> bool:
        """Write *lines* more lines, in bursts; return whether there are more to write."""
        until = self._left - min(lines, self._left)
        while self._left > until:
            burst = min(self._random.randrange(1, 60), self._left)
            self._random.choice(self.applications).write_lines(burst)
            self._left -= burst
        return self._left > 0

    def close(self) -> None:
        """Close every file."""
        for member in self.applications:
            member.close()
