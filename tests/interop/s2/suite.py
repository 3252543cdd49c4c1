"""S2's own end-to-end tests, run by its Python SDK against `logdrive store run`.

The tests are not part of the project: they are run from where they are, in an environment of their
own, as two versions of the SDK exclude each other.
"""

import contextlib
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import shared_directory, unavailable
from tests.support.environments import make_environment
from tests.support.store_process import StoreProcess

PYTEST = ("pytest==9.2.0", "pytest-asyncio==1.5.0", "pytest-timeout==2.4.0")
_SUITE_SECONDS = 280


@dataclass(frozen=True)
class Sdk:
    """A version of s2-sdk; *options* are what the tests need beside it to run with that version."""

    version: str
    options: tuple[str, ...] = ()


def suite_directory() -> Path:
    """Return where the tests are."""
    directory = shared_directory() / "peers" / "s2" / "e2e"
    if not (directory / "tests").is_dir():
        unavailable(f"no tests of S2's in {directory}")
    return directory


def new_environment(directory: Path, version: str) -> Path:
    """Make an environment with s2-sdk; return its Python."""
    return make_environment(directory, f"s2-sdk=={version}", *PYTEST)


class S2StoreProcess(StoreProcess):
    """`logdrive store run` with an S2 face on a port of its own; it may be started again."""

    def __init__(self, root: Path) -> None:
        super().__init__(root, "listen.s2", _answers)
        self.url = f"http://127.0.0.1:{self.port}"


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health") as got:
            assert got.read() == b"OK"
            return True
    except OSError:
        return False


@contextlib.contextmanager
def served_store(root: Path) -> Iterator[str]:
    """Run a store with an S2 face; yield its address as a URL."""
    store = S2StoreProcess(root)
    try:
        store.start()
        yield store.url
        store.check_running()
    finally:
        store.kill()


def run_suite(python: Path, sdk: Sdk, url: str, marks: str, *options: str) -> int:
    """Run the tests with *marks* against *url*; return how many passed. Raises AssertionError."""
    directory = suite_directory()
    environment = {
        **os.environ,
        "S2_ACCESS_TOKEN": "any",
        "S2_ACCOUNT_ENDPOINT": url,
        "S2_BASIN_ENDPOINT": url,
        "PYTHONPATH": str(directory),  # of what lets older tests run with a newer SDK
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [
        str(python),
        *("-m", "pytest", "tests", "-q", "-p", "no:cacheprovider", "-m", marks),
        *("--timeout", "60", *sdk.options, *options),
    ]
    done = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, timeout=_SUITE_SECONDS
    )
    text = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, text[-8000:]
    passed = re.search(r"(\d+) passed", text)
    assert passed is not None, text[-2000:]
    return int(passed[1])
