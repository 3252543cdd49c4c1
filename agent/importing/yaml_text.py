"""Reads YAML of another shipper, and says where it is none."""

from typing import Any

import yaml
from yaml.reader import ReaderError

from logdrive.errors import ConfigError, Mistake


def load_yaml(text: str, path: str) -> Any:
    """Return the document *text*, which was read from *path*.

    Raises `ConfigError` with line and column if it is no YAML.
    """
    try:
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        reason = ", ".join(filter(None, (error.context, error.problem)))
        line, column = (mark.line, mark.column) if mark is not None else (0, 0)
    except ReaderError as error:  # a character that YAML does not have
        before = text[: error.position]
        line, column = before.count("\n"), len(before) - before.rfind("\n") - 1
        reason = error.reason
    except ValueError as error:  # a date that no calendar has; the parser does not say where
        raise ConfigError(path, [Mistake("", "", f"this is not YAML: {error}")]) from error
    lines = text.splitlines()
    shown = lines[line].strip() if line < len(lines) else ""
    raise ConfigError(
        path,
        [Mistake(f"line {line + 1}, column {column + 1}", shown, f"this is not YAML: {reason}")],
    )
