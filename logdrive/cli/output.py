"""What the command line says and where: results on standard output, everything else on standard
error.
"""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import orjson


def complain(text: str) -> None:
    """Say what went wrong, one line each, on standard error."""
    for line in text.split("\n"):
        print(f"logdrive: {escaped(line)}", file=sys.stderr)


def emit_json(result: dict[str, Any]) -> None:
    """Print the one object that `--json` promises."""
    sys.stdout.buffer.write(orjson.dumps(result, option=orjson.OPT_INDENT_2) + b"\n")
    sys.stdout.flush()


def set_up_logging(level: str = "info") -> None:
    """Send structlog to standard error: coloured on a terminal, `key=value` lines otherwise."""
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
            printable,
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )


def printable(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Escape the texts of *event*: peers and file names choose some of them, and must not steer a
    terminal or fake a line.
    """
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = escaped(value)
    return event


def escaped(text: str) -> str:
    """Return *text* with escapes for what can't be printed."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )
