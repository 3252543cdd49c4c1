"""Kills a program before any one of its operations that change files (`before_operation.c`)."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.conftest import need_program

_SOURCE: Final = Path(__file__).with_suffix(".c")


@dataclass(frozen=True, slots=True)
class Operation:
    """What a program did, as its operation *number* from 1 on, with a file or directory."""

    number: int
    what: str
    path: str


class Killer:
    """Runs programs; needs a directory for what it compiles and writes."""

    def __init__(self, directory: Path) -> None:
        need_program("gcc")
        self._library = directory / "before_operation.so"
        self._log = directory / "operations"
        flags = ["-O1", "-U_FORTIFY_SOURCE", "-Wall", "-Werror", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, _SOURCE, "-ldl", "-o", self._library], check=True)

    def list_operations(self, command: list[str], below: Path) -> list[Operation]:
        """Run *command* to its end; return what it did below a directory, but for those writes
        that follow on another of the same file.
        """
        self._log.unlink(missing_ok=True)
        ended = self._run(command, {"KILL_BELOW": str(below), "KILL_LOG": str(self._log)})
        assert ended.returncode == 0, ended.stderr
        lines = self._log.read_text().splitlines()
        return [
            Operation(number, *line.split(" ", 1))
            for number, (line, last) in enumerate(zip(lines, ["", *lines], strict=False), 1)
            if line != last or not line.startswith("write ")
        ]

    def run_until(self, command: list[str], below: Path, operation: Operation) -> bool:
        """Run *command*, and kill it before the operation of that number; return whether it was."""
        where = {"KILL_BELOW": str(below), "KILL_BEFORE": str(operation.number)}
        return self._run(command, where).returncode == -9

    def _run(self, command: list[str], where: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        environment = os.environ | where | {"LD_PRELOAD": str(self._library)}
        return subprocess.run(command, env=environment, capture_output=True, timeout=120)
