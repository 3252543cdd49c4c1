"""Log lines and messages are safe to read, even if a peer or a file name chose their words."""

import subprocess
import sys

from logdrive.cli.output import escape_event

_PROGRAM = """
import structlog
from logdrive.cli.output import configure_logging
configure_logging()
log = structlog.get_logger("test")
reason = "a\\rb\\nc\\x1b[2J\\x9b\\u202ed"
log.warning("refused", sure=True, reason=reason, path="/var/log/\u20ac r.log")
try:
    raise ValueError("one\\ntwo")
except ValueError:
    log.exception("failed")
"""


def test_control_characters_are_escaped_and_letters_of_all_scripts_are_kept() -> None:
    event = escape_event(
        None,
        "info",
        {
            "event": "x",
            "reason": "a\r\n\x1b[2Jb\x7f\u202e",
            "name": "\u00fc \u20ac \u65e5\u672c",
            "count": 3,
        },
    )
    assert event == {
        "event": "x",
        "reason": r"a\r\n\x1b[2Jb\x7f\u202e",
        "name": "\u00fc \u20ac \u65e5\u672c",
        "count": 3,
    }


def test_an_event_is_one_line_on_standard_error_with_its_traceback_inside() -> None:
    run = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        capture_output=True,
        timeout=30,
        check=True,
        env={"PYTHONUTF8": "1"},
    )
    assert run.stdout == b""
    lines = run.stderr.decode().split("\n")
    assert len(lines) == 3, lines
    assert lines[2] == ""
    assert "Traceback" in lines[1]
    for line in lines:
        assert line.isprintable()
    assert "sure=true" in lines[0]
    assert "/var/log/\u20ac r.log" in lines[0]
