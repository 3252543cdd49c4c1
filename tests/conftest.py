"""Fixtures that many tests share, and the rule that CI must not skip what users may."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
import structlog
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.lake import Lake

# How long an example takes says how busy the machine is, and nothing of what the test holds.
settings.register_profile("logdrive", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("logdrive")

# Under `nohup make test` every program that a test starts would ignore hangups, too: programs
# inherit that, but no handler.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda _number, _frame: None)


SLOW = ("process", "spark", "history")
"""Marks of tests that take seconds, not milliseconds."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put files with slow tests first, so that workers that share files end together."""
    slow = {item.path for item in items if any(map(item.get_closest_marker, SLOW))}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True)
def default_logging() -> Iterator[None]:
    """Undo how a command that was called in this process set up its log."""
    yield
    if structlog.is_configured():
        structlog.reset_defaults()


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """The URL of a store that speaks S3's protocol."""
    from tests.support.lake import serve_objects

    with serve_objects() as endpoint:
        yield endpoint


@pytest.fixture
def lake(object_store: str, monkeypatch: pytest.MonkeyPatch) -> "Lake":
    """A new bucket in that store."""
    from tests.support.lake import KEYS, make_lake

    for key, value in KEYS.items():
        monkeypatch.setenv(key, value)
    return make_lake(object_store)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA with a server and a client certificate, made by the real command."""
    directory = tmp_path_factory.mktemp("tls") / "tls"
    arguments = [
        sys.executable,
        "-m",
        "logdrive.cli.main",
        "certs",
        str(directory),
        "--name",
        "localhost",
    ]
    subprocess.run(arguments, check=True, capture_output=True, timeout=60)
    return directory


@pytest.fixture(scope="session")
def real_logs() -> list[Path]:
    """Lines that real systems wrote, where they are at hand."""
    directory = shared_directory() / "data" / "logs"
    logs = sorted(directory.glob("*.log"))
    if not logs:
        unavailable(f"no real logs in {directory}")
    return logs


def shared_directory() -> Path:
    """Return where material for tests is that is no part of the project; it need not exist."""
    beside = Path(__file__).parents[2] / "shared"
    return Path(os.environ.get("LOGDRIVE_SHARED", beside))


def need_program(name: str) -> None:
    """Go on only where there is a program of that name."""
    if shutil.which(name) is None:
        unavailable(f"no {name} program here")


def unavailable(reason: str) -> NoReturn:
    """Skip for a user who lacks something; fail in CI, which must have everything."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI lacks what this test needs: {reason}")
    pytest.skip(reason)
