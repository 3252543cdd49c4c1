"""Builds S2's command line from crates.io, once: `make peers`. It is kept outside of the checkout.

Its subcommand `lite` is a real s2-lite, so one build gives both.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "0.43.4"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_ROOT = _CACHE / f"logdrive-peers/s2-cli-{VERSION}"
BINARY = _ROOT / "bin/s2"
_CARGO = "cargo comes with Rust (https://rustup.rs)"


def main() -> int:
    """Build what is not there yet; return the exit code."""
    if BINARY.exists():
        print(f"s2-cli {VERSION} is there: {BINARY}")
        return 0
    cargo = shutil.which("cargo")
    if cargo is None:
        print(f"s2-cli {VERSION} is built from crates.io with cargo, and there is none: {_CARGO}")
        return 2
    print(
        f"building s2-cli {VERSION} into {_ROOT}: about 9 minutes on two idle cores",
        flush=True,
    )
    command = [cargo, "install", "s2-cli", "--version", VERSION, "--locked", "--root", str(_ROOT)]
    environment = {**os.environ, "CARGO_PROFILE_RELEASE_STRIP": "symbols"}
    return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
