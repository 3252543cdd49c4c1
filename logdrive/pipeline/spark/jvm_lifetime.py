"""Makes the JVM end with the process that started it.

PySpark's JVM notices by its standard input that Python has ended, but only once it is up, which
takes many seconds on a busy machine. The kernel's parent-death signal (prctl(2), PR_SET_PDEATHSIG)
has no such gap. A process must ask for it itself, so Spark gets a JAVA_HOME whose `java` asks for
the signal and then executes Java.
"""

import os
import shlex
import sys
from pathlib import Path

_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_BIND = (
    "import ctypes, os, signal, sys; "
    f"ctypes.CDLL(None).prctl({_PARENT_DEATH_SIGNAL}, int(signal.SIGKILL), 0, 0, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


def make_bound_java_home(java_home: Path, directory: Path) -> Path:
    """Make a JAVA_HOME in *directory* whose `java` runs that of *java_home* until its parent ends.

    Returns *java_home* itself if *directory* does not allow to execute files.
    """
    java = directory / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    start = [sys.executable, "-ISc", _BIND, str(java_home / "bin" / "java")]
    java.write_text(f'#!/bin/sh\nexec {shlex.join(start)} "$@"\n', encoding="utf-8")
    java.chmod(0o700)
    return java.parent.parent if os.access(java, os.X_OK) else java_home
