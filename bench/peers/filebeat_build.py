"""Builds Filebeat from the Go module proxy, once: `make filebeat`, and outside of the checkout.

It is the real one, of the last version whose module can be had there, with the inputs that the
benchmarks use. What is built is in `filebeat_source`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "7.17.29"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_ROOT = _CACHE / f"logdrive-peers/filebeat-{VERSION}"
BINARY = _ROOT / "filebeat"
_SOURCE = Path(__file__).with_name("filebeat_source")


def missing() -> str | None:
    """Return how to get Filebeat; None if it is there."""
    return None if BINARY.exists() else f"Filebeat {VERSION}: `make filebeat` builds it (needs Go)"


def main() -> int:
    """Build what is not there yet; return the exit code."""
    if BINARY.exists():
        print(f"Filebeat {VERSION} is there: {BINARY}")
        return 0
    go = shutil.which("go")
    if go is None:
        print(f"Filebeat {VERSION} is built with Go, and there is none (Debian: golang-go)")
        return 2
    print(f"building Filebeat {VERSION} into {_ROOT}: about ten minutes", flush=True)
    source = _ROOT / "source"
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(_SOURCE, source)
    built = _ROOT / "filebeat.new"
    for command in (
        [go, "mod", "tidy"],
        [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(built), "."],
    ):
        code = subprocess.run(command, cwd=source, check=False).returncode
        if code != 0:
            return code
    built.rename(BINARY)
    return 0


if __name__ == "__main__":
    sys.exit(main())
