"""S2's TypeScript SDK against our store: requests over HTTP/1.1, sessions over HTTP/2."""

import os
import shutil
import subprocess
from pathlib import Path

import orjson
import pytest

from tests.conftest import need_program, unavailable
from tests.interop.s2.suite import served_store

pytestmark = pytest.mark.process

SCRIPT = Path(__file__).parent / "typescript" / "session.mjs"
PACKAGE = "@s2-dev/streamstore@0.27.0"
ENOUGH_SECONDS = 120
RECORDS = 50


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The script, in a directory into which the SDK was installed."""
    need_program("node")
    need_program("npm")
    directory = tmp_path_factory.mktemp("s2-typescript")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--no-update-notifier")
    command = ["npm", "install", *options, "--prefix", str(directory), PACKAGE]
    try:
        subprocess.run(
            command, check=True, capture_output=True, timeout=ENOUGH_SECONDS, cwd=directory
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        unavailable(f"npm can't install {PACKAGE}: {error}")
    return Path(shutil.copy(SCRIPT, directory))


def test_the_typescript_sdk_appends_and_reads(program: Path, tmp_path: Path) -> None:
    with served_store(tmp_path) as url:
        environment = {**os.environ, "S2_ACCOUNT_ENDPOINT": url, "S2_BASIN_ENDPOINT": url}
        done = subprocess.run(
            ["node", str(program)],
            capture_output=True,
            timeout=ENOUGH_SECONDS,
            env=environment,
            check=False,
        )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-4000:]
    assert orjson.loads(done.stdout) == {
        "first": 1,
        "second": 2,
        "bytes": [255, 0],
        "acknowledged": list(range(3, RECORDS + 3)),
        "read": list(range(RECORDS + 2)),
        "tail": RECORDS + 2,
        "streams": ["logs/app one"],
    }
