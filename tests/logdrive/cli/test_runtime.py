"""What a program takes of the machine before it begins."""

import subprocess
import sys

_PROGRAM = """
import resource
from logdrive.cli.runtime import lift_limit_of_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))
print(lift_limit_of_open_files(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_programs_may_open_as_many_files_as_the_machine_allows() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["256", "256", "256"]
