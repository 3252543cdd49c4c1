"""The compiled loops access no foreign byte and do no undefined arithmetic, for any arguments."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.conftest import need_program

pytestmark = pytest.mark.thorough

KERNEL = Path(__file__).parents[3] / "logdrive" / "kernel"


# without SSE2, as on other processors
@pytest.mark.parametrize(
    ("loops", "flags"),
    [
        ("loops", []),
        ("loops", ["-U__SSE2__"]),
        ("text_loops", []),
        ("page_loops", []),
        ("s2_loops", []),
        ("iggy_loops", []),
    ],
)
def test_the_comparison_with_python_holds_under_the_sanitizers(
    tmp_path: Path, loops: str, flags: list[str]
) -> None:
    need_program("gcc")
    built = tmp_path / f"_{loops}.abi3.so"
    checks = [
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
        "-Wall",
        "-Wextra",
        "-Wconversion",
        "-Werror",
    ]
    header = f"-I{sysconfig.get_path('include')}"
    subprocess.run(
        [
            "gcc",
            "-g",
            "-O1",
            *checks,
            *flags,
            "-fPIC",
            "-shared",
            "-DPy_LIMITED_API=0x030B0000",
            header,
            str(KERNEL / f"{loops}.c"),
            "-o",
            built,
        ],
        check=True,
    )
    runtimes = [
        subprocess.run(
            ["gcc", f"-print-file-name={name}"], check=True, capture_output=True, text=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    environment = os.environ | {
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter frees not all at its end
        "PYTHONMALLOC": "malloc",  # so that the sanitizer sees each object's end
        "SANITIZED_LOOPS": str(built),
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-o",
        "addopts=",
        f"test_{loops}.py",
    ]
    done = subprocess.run(
        command,
        env=environment,
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
