"""Output of commands: results on standard output, messages and logs on standard error."""

import logging
import os
import sys
from collections.abc import MutableMapping
from typing import Any

import orjson

from logdrive.cli.log_forms import ERROR_PREFIX, LogForm, choose_form, make_processors
from logdrive.cli.repeats import RepeatFilter
from logdrive.printable import escape_unprintable


def print_error(text: str) -> None:
    """Print the error *text* on standard error, each line prefixed with `logdrive: `.

    Where the journal reads it, each line has the priority of an error, so that `journalctl -p err`
    shows why a service did not start.
    """
    priority = ERROR_PREFIX if choose_form("auto", os.environ) == "journal" else ""
    for line in text.split("\n"):
        print(f"{priority}logdrive: {escape_unprintable(line)}", file=sys.stderr)


def emit_json(result: dict[str, Any]) -> None:
    """Print *result* as the single JSON object of a command's `--json`."""
    sys.stdout.buffer.write(orjson.dumps(result, option=orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.flush()


def configure_logging(
    level: str = "info", form: LogForm = "auto", *, one_a_minute: bool = False
) -> None:
    """Send structlog to standard error, in a *form* of `logdrive.cli.log_forms`.

    With *one_a_minute* a warning or error that says the same again is held back for a minute.
    """
    import structlog  # not sooner: see `import_structlog`

    structlog.configure(
        processors=[
            *([RepeatFilter()] if one_a_minute else []),
            structlog.processors.add_log_level,
            escape_event,
            structlog.processors.format_exc_info,
            *make_processors(choose_form(form, os.environ)),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def escape_event(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Escape the strings in *event*: a structlog processor.

    Peers and file names choose some of these strings. Escaped, they can neither control a terminal
    nor forge a log line.
    """
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = escape_unprintable(value)
    return event
