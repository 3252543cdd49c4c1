"""Configuration: a TOML file, overridden by environment variables, checked as a msgspec Struct.

All mistakes are reported at once.

Each key can be set by a variable: `LOGDRIVE_OUTPUT__HOSTS` is `[output] hosts`. Two underscores are
the dot; a number is the place in a list (`LOGDRIVE_INPUT__0__PATHS`). The value is TOML if that
fits the key, else text; a list of texts may be written with commas. A variable overrides the file.

A text that begins with `${CREDENTIALS_DIRECTORY}/` is a path where systemd puts what a unit's
LoadCredential= names, such as a key that only root may read.

A key that takes either a word or a table is a union, `tls: Literal["off"] | ServerTlsConfig`
(`logdrive.net.settings`):

    [listen]                      [listen.tls]
    tls = "off"                   ca = "ca.pem" …
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec

from logdrive.config.check import find_mistakes
from logdrive.config.credentials import expand_credentials
from logdrive.config.environment import apply_environment
from logdrive.errors import ConfigError, Mistake, UnavailableError, os_error_text

T = TypeVar("T", bound=msgspec.Struct)
_PROGRAMS: Final = ("agent", "receiver", "store")
"""What errors with full keys name in place of the file."""
_PARTS: Final = ("listen", "tls")
"""What errors with the last word of a key name in place of the file."""
_PLACE = re.compile(
    r"(?P<reason>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)"
)


def load_config(path: str, type: type[T], environ: Mapping[str, str]) -> T:  # noqa: A002 - reads best at the call
    """Return the configuration of the file at *path*, overridden by *environ*.

    Raises `ConfigError` with all mistakes.
    """
    document = _parsed(path, _read(path))
    names, mistakes = apply_environment(document, type, environ)
    document, missing = expand_credentials(document, environ)
    mistakes += missing
    mistakes += [_named(mistake, names) for mistake in find_mistakes(document, type)]
    if mistakes:
        raise ConfigError(path, mistakes)
    return msgspec.convert(document, type)


def parse_config(path: str, text: str, type: type[T]) -> T:  # noqa: A002 - reads best at the call
    """Return the configuration in *text*, which was read from *path*, without the environment.

    Raises `ConfigError` with all mistakes.
    """
    document = _parsed(path, text)
    if mistakes := find_mistakes(document, type):
        raise ConfigError(path, mistakes)
    return msgspec.convert(document, type)


@contextmanager
def name_keys_in_errors(path: str, config: msgspec.Struct) -> Iterator[None]:
    """Add the file at *path*, and the full keys, to a `ConfigError` raised inside.

    Code of a program knows its keys, and not the file: it names the file "agent", "receiver" or
    "store". Code that knows the table names that, such as "listen.s2". Code that can't use an
    address or a certificate knows neither: it names the file "listen" or "tls", the last word of
    the key, and the value.
    """
    try:
        yield
    except ConfigError as error:
        mistakes = error.mistakes
        if error.file not in _PROGRAMS:
            keys = dict(_leaves(msgspec.to_builtins(config), ""))
            is_part = error.file in _PARTS
            # it names a file and its keys already
            if not is_part and any(f"{error.file}.{each.key}" not in keys for each in mistakes):
                raise
            mistakes = [
                replace(each, key=(is_part and _key_of(each, keys)) or f"{error.file}.{each.key}")
                for each in mistakes
            ]
        kind = UnavailableError if isinstance(error, UnavailableError) else ConfigError
        raise kind(path, mistakes) from error


def _leaves(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else name)
    else:
        yield key, value


def _key_of(mistake: Mistake, keys: Mapping[str, Any]) -> str | None:
    return next(
        (
            key
            for key, value in keys.items()
            if key.rpartition(".")[2] == mistake.key and value == mistake.value
        ),
        None,
    )


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read().decode()
    except FileNotFoundError as error:
        remedy = (
            "there is no such file: name one with --config; config/*.toml are complete "
            "examples to start from"
        )
        raise ConfigError(path, [Mistake("", "", remedy)]) from error
    except OSError as error:
        raise ConfigError(
            path,
            [Mistake("", "", f"it can't be read: {os_error_text(error)}")],
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            path,
            [Mistake(f"byte {error.start}", "", "TOML is UTF-8: save the file in that encoding")],
        ) from error


def _parsed(path: str, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # the parser says where only in its message
        match = _PLACE.fullmatch(str(error))
        lines = text.splitlines()
        at_end = not (match and match["line"])
        line = max(len(lines), 1) if match is None or at_end else int(match["line"])
        column = ", at its end" if match is None or at_end else f", column {match['column']}"
        reason = match["reason"] if match else str(error)
        shown = lines[line - 1].strip() if line <= len(lines) else ""
        raise ConfigError(
            path, [Mistake(f"line {line}{column}", shown, f"this is not TOML: {reason}")]
        ) from error


def _named(mistake: Mistake, names: Mapping[str, str]) -> Mistake:
    """Return *mistake* with the variable that set its key, or a table around it, if one did."""
    key = mistake.key
    while key:
        if key in names:
            return Mistake(f"{names[key]} ({mistake.key})", mistake.value, mistake.remedy)
        # go on with the table, or the list, that the key is in
        key = re.sub(r"(\.[^.\[\]]*|\[\d+\]|^[^.\[\]]*)$", "", key)
    return mistake
