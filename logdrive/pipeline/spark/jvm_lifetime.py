"""Makes the JVM end with the thread that started it, or while it is still starting.

PySpark's JVM notices by its standard input that Python has ended, but only once it is up, which
takes many seconds on a busy machine. The kernel's parent-death signal (prctl(2), PR_SET_PDEATHSIG)
has no such gap. A process must ask for it itself, so Spark gets a JAVA_HOME whose `java` asks for
the signal and then executes Java. It also notes its process id, since PySpark tells none before the
JVM is up.
"""

import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_BIND = (
    "import ctypes, os, signal, sys; "
    f"ctypes.CDLL(None).prctl({_PARENT_DEATH_SIGNAL}, int(signal.SIGKILL), 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)
_PID = "java.pid"  # beside the `java` that writes it
_POLL_SECONDS = 0.05


def make_bound_java_home(java_home: Path, directory: Path) -> Path:
    """Make a JAVA_HOME in *directory* whose `java` runs that of *java_home* until its parent ends.

    Returns *java_home* itself if *directory* does not allow to execute files.
    """
    java = directory / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    start = [sys.executable, "-ISc", _BIND, str(java_home / "bin" / "java")]
    note = shlex.quote(str(java.parent / _PID))
    java.write_text(
        f'#!/bin/sh\necho $$ > {note}\nexec {shlex.join(start)} "$@"\n', encoding="utf-8"
    )
    java.chmod(0o700)
    return java.parent.parent if os.access(java, os.X_OK) else java_home


@contextmanager
def ends_early(java_home: Path, cancel: threading.Event | None) -> Iterator[None]:
    """Kill the JVM of *java_home* if *cancel* is set while the context, its start, lasts.

    *java_home* is of `make_bound_java_home`; of another one the start can't be given up.
    """
    if cancel is None:
        yield
        return
    started = threading.Event()
    watch = threading.Thread(
        target=_kill_if_cancelled, args=(java_home, cancel, started), name="logdrive-jvm"
    )
    watch.start()
    try:
        yield
    finally:
        started.set()
        watch.join()


def _kill_if_cancelled(java_home: Path, cancel: threading.Event, started: threading.Event) -> None:
    note = java_home / "bin" / _PID
    while not started.wait(_POLL_SECONDS):
        if not cancel.is_set():
            continue
        # not written yet; or of the launcher before it, which has ended
        with suppress(OSError, ValueError):
            pid = int(note.read_text(encoding="ascii"))
            # the id may be another process's by now
            if os.fsencode(java_home) in Path(f"/proc/{pid}/environ").read_bytes():
                os.kill(pid, signal.SIGKILL)
