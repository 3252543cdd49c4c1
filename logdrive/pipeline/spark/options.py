"""The options of a query that reads with the data source `logdrive`."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from logdrive.address import StreamAddress
from logdrive.errors import ConfigError, Mistake
from logdrive.host.transport import ClientTls
from logdrive.model.units import MIB
from logdrive.pipeline.decode.schema import EVENTS
from logdrive.pipeline.read.choose_reader import choose_reader
from logdrive.pipeline.read.offsets import parse_progress
from logdrive.pipeline.read.times import parse_time_ms
from logdrive.services.pravega.client.controller import Login
from logdrive.services.reader import ServiceReader

T = TypeVar("T")

MAX_BYTES_PER_BATCH: Final = 256 * MIB  # default limit on the bytes of a micro-batch
RANGE_BYTES: Final = 64 * MIB  # default size of what one task reads
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
OPTIONS_NAME: Final = "options of the data source logdrive"  # in errors
_SIZES: Final = {"maxBytesPerBatch": MAX_BYTES_PER_BATCH, "rangeBytes": RANGE_BYTES}
_OFFSETS_FORM: Final = '{"segments": {"0": [next, offset, crc], …}}'


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a query begins or ends: *offsets*, or, if it is given, a time."""

    offsets: str
    """`earliest`, `latest` or a `Progress` in JSON."""
    time_ms: int | None = None
    """The first batch received at this time or later, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class Options:
    """The parsed options of a query."""

    stream: ServiceReader
    max_bytes: int = MAX_BYTES_PER_BATCH  # limit on a micro-batch
    range_bytes: int = RANGE_BYTES  # size of a task's range
    start: Bound = Bound(EARLIEST)
    end: Bound = Bound(LATEST)  # of a batch query
    columns: tuple[str, ...] = tuple(EVENTS.names)


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse the options of a query; their names are case-insensitive, as Spark's are.

    Raises `ConfigError`, which names every mistake.
    """
    values = {name.lower(): value for name, value in given.items()}
    mistakes: list[Mistake] = []
    sizes = {name: _parse_size(name, values, mistakes) for name in _SIZES}
    start = _parse_bound("starting", (EARLIEST, LATEST), values, mistakes)
    end = _parse_bound("ending", (LATEST,), values, mistakes)
    columns = _parse_columns(values.get("columns"), mistakes)
    try:
        tls, login = connection_values(values)
        stream = _open_reader(
            values.get("uri", ""),
            tls,
            login,
            values.get("token", ""),
            local_reads=values.get("localreads", "true") != "false",
        )
    except ValueError as error:
        mistakes.append(Mistake("uri", "", str(error)))
    if mistakes:  # all at once
        raise ConfigError(OPTIONS_NAME, mistakes)
    return Options(stream, sizes["maxBytesPerBatch"], sizes["rangeBytes"], start, end, columns)


def connection_values(values: Mapping[str, str]) -> tuple[ClientTls | None, Login | None]:
    """Return the certificates and the login in *values*, whose names are in lower case."""
    tls = (
        ClientTls(values["ca"], values.get("cert"), values.get("key"), values.get("servername"))
        if "ca" in values
        else None
    )
    login = Login(values["user"], values.get("password", "")) if "user" in values else None
    return tls, login


def _open_reader(
    uri: str, tls: ClientTls | None, login: Login | None, token: str, *, local_reads: bool
) -> ServiceReader:
    stream = choose_reader(uri, tls, login, token, local_reads=local_reads)
    # a directory would have to be served first, and Spark has no end at which to stop that
    if isinstance(stream, StreamAddress):
        raise ValueError(
            f"{uri!r}: write pravega://host:port/scope/stream, s2://host:port/… or "
            "iggy://host:port/…"
        )
    return stream


def _parse_size(name: str, values: Mapping[str, str], mistakes: list[Mistake]) -> int:
    value = values.get(name.lower(), "")
    if value and not (value.isdecimal() and int(value) > 0):
        mistakes.append(Mistake(name, value, "write a number of bytes"))
        return _SIZES[name]
    return int(value) if value else _SIZES[name]


def _parse_bound(
    end: str, words: tuple[str, ...], values: Mapping[str, str], mistakes: list[Mistake]
) -> Bound:
    """Return what the options `<end>Offsets` and `<end>Timestamp` say; *words* may be offsets."""
    offsets, time = values.get(f"{end}offsets"), values.get(f"{end}timestamp")
    if offsets is not None and time is not None:
        remedy = f"give {end}Offsets or {end}Timestamp, not both"
        mistakes.append(Mistake(f"{end}Timestamp", time, remedy))
    if offsets is not None and offsets not in words:
        remedy = f"write {', '.join(words)}, or {_OFFSETS_FORM}"
        _checked(
            lambda: parse_progress(json.loads(offsets)), f"{end}Offsets", offsets, remedy, mistakes
        )
    if time is None:
        return Bound(words[0] if offsets is None else offsets)
    remedy = "write a time such as 2026-11-23T06:00:00Z, or ms since 1970"
    return Bound(
        words[0], _checked(lambda: parse_time_ms(time), f"{end}Timestamp", time, remedy, mistakes)
    )


def _checked(
    parse: Callable[[], T], name: str, value: str, remedy: str, mistakes: list[Mistake]
) -> T | None:
    try:
        return parse()
    except (ValueError, OverflowError):
        mistakes.append(Mistake(name, value, remedy))
        return None


def _parse_columns(value: str | None, mistakes: list[Mistake]) -> tuple[str, ...]:
    if value is None:
        return tuple(EVENTS.names)
    names = tuple(name.strip() for name in value.split(","))
    unknown = [name for name in names if name not in EVENTS.names]
    if unknown or len(set(names)) < len(names):
        remedy = f"write some of {','.join(EVENTS.names)}, each once"
        mistakes.append(Mistake("columns", value, remedy))
    return names
