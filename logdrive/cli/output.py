"""Output of commands: results on standard output, messages and logs on standard error."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import orjson

from logdrive.printable import escape_unprintable


def print_error(text: str) -> None:
    """Print the error *text* on standard error, each line prefixed with `logdrive: `."""
    for line in text.split("\n"):
        print(f"logdrive: {escape_unprintable(line)}", file=sys.stderr)


def emit_json(result: dict[str, Any]) -> None:
    """Print *result* as the single JSON object of a command's `--json`."""
    sys.stdout.buffer.write(orjson.dumps(result, option=orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.flush()


def configure_logging(level: str = "info") -> None:
    """Send structlog to standard error: colored on a terminal, `key=value` lines otherwise."""
    import structlog  # not sooner: see `import_structlog`

    on_terminal = sys.stderr.isatty()
    plain = structlog.processors.LogfmtRenderer(
        key_order=["timestamp", "level", "event"], bool_as_flag=False
    )
    renderer: Any = structlog.dev.ConsoleRenderer() if on_terminal else plain
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            escape_event,
            structlog.processors.format_exc_info,
            renderer,
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
