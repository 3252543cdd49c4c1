"""If one of the demo's processes ends, the error says why."""

import sys
from pathlib import Path

import pytest

from logdrive.cli.demo.system import DemoError, run_step


@pytest.mark.process
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("no room here", "no room here"),
        ("", "it printed nothing to {log}: is there room on that disk?"),
    ],
)
def test_a_step_that_fails_is_told_with_what_it_said(tmp_path: Path, said: str, told: str) -> None:
    log = tmp_path / "step.log"
    program = f"import sys; sys.stderr.write({said!r}); sys.exit(3)"
    with pytest.raises(DemoError) as failed:
        run_step("certs", [sys.executable, "-c", program], log)
    assert str(failed.value) == f"certs ended with exit code 3:\n{told.format(log=log)}"
