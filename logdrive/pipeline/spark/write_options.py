"""The options of a query that writes with the data source `logdrive`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from logdrive.errors import ConfigError, Mistake
from logdrive.pipeline.read.stream import StreamClient, stream_client
from logdrive.pipeline.spark.options import OPTIONS_NAME, connection_values
from logdrive.pipeline.write.numbers import MOST_EPOCHS
from logdrive.pipeline.write.records import check_columns

_MOST_SEGMENTS: Final = 1000


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The parsed options of a query that writes."""

    stream: StreamClient
    writer: str | None
    """Name that repetitions have in common; None: a streaming query's id, else made anew."""
    epoch: int
    """Number of what a batch query writes, among all that its writer writes."""
    segments: int | None
    """Segments of a stream that is not there; None: it must be there."""


def parse_write_options(
    given: Mapping[str, str], columns: Sequence[str], *, overwrite: bool
) -> WriteOptions:
    """Parse the options of a query that writes rows with *columns*.

    Raises `ConfigError`, which names every mistake.
    """
    values = {name.lower(): value for name, value in given.items()}
    mistakes = check_columns(columns)
    if overwrite:
        remedy = 'a stream is only appended to: write .mode("append")'
        mistakes.append(Mistake("mode", "overwrite", remedy))
    if values.get("writer") == "":
        mistakes.append(Mistake("writer", "", "leave it out, or give it a name"))
    if "epoch" in values and "writer" not in values:
        mistakes.append(Mistake("epoch", values["epoch"], "give `writer`, too: it counts them"))
    epoch = _parse_count("epoch", values, MOST_EPOCHS - 1, mistakes)
    segments = _parse_count("segments", values, _MOST_SEGMENTS, mistakes)
    if segments == 0:
        mistakes.append(Mistake("segments", "0", "write 1 or more"))
    try:
        tls, login = connection_values(values)
        stream = stream_client(values.get("uri", ""), tls, login, values.get("token", ""))
    except ValueError as error:
        mistakes.append(Mistake("uri", "", str(error)))
    if mistakes:  # all at once
        raise ConfigError(OPTIONS_NAME, mistakes)
    return WriteOptions(stream, values.get("writer"), epoch or 0, segments)


def _parse_count(
    name: str, values: Mapping[str, str], most: int, mistakes: list[Mistake]
) -> int | None:
    value = values.get(name)
    if value is None:
        return None
    if value.isascii() and value.isdecimal() and len(value) < 16 and int(value) <= most:
        return int(value)
    mistakes.append(Mistake(name, value, f"write a number up to {most}"))
    return None
