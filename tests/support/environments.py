"""Environments of their own for foreign clients: versions of one package exclude each other."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import unavailable

_PIP = ("-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check")
_INSTALL_SECONDS = 240


def make_environment(directory: Path, *requirements: str) -> Path:
    """Make an environment with *requirements*; return its Python.

    A test that can't have it is skipped; in CI it fails.
    """
    python = directory / "bin" / "python"
    _install([sys.executable, "-m", "venv", str(directory)], f"an environment in {directory}")
    _install([str(python), *_PIP, *requirements], " ".join(requirements))
    return python


def _install(command: list[str], what: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        unavailable(f"{what} can't be installed: {error.stderr.decode()[-500:]}")
    except subprocess.TimeoutExpired as error:
        unavailable(f"{what} can't be installed: {error}")
