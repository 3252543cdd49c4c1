"""What an audit asks of the rows in `events`: sums by batch, and a few rarer questions.

Two engines answer: `ArrowEngine` reads the files in this process, `SparkEngine` lets Spark read
them. Both give the same answers, whatever state the tables are in; all judging is done outside.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from logdrive.pipeline.audit.unreadable import DamagedFile
from logdrive.pipeline.tables.delta import AppendTable

FIGURES: Final = (
    "found",  # rows
    "row_bytes",  # from their start to their end
    "unplaced",  # without a start or an end
    "empty",  # whose end is not behind their start
    "quarantined",  # could not be decoded
    "damaged",  # packs that can't be opened
    "changed",  # not the bytes of their file
    "cut",  # only a part of an event
    "whole",  # a whole event of which a part came before
    "redacted",  # changed by a rule of the agent's
    "unended",  # without a line end
    "arrows",  # hashes of their starts less those of their ends: see `position_hash`
)
"""What is summed over rows. Rows that are unplaced add nothing to row_bytes, empty and arrows."""

SUMS: Final = pa.schema(
    [("batch", pa.int64()), ("source", pa.string()), *((name, pa.int64()) for name in FIGURES)]
)
"""The sums over the rows of one batch and source; a batch may have several such rows."""

SourceNames = tuple[str, str]
"""The ids of two sources that are compared."""


class AuditEngine(Protocol):
    """Reads the rows of one version of `events`. Its methods raise `LogdriveError`."""

    def sum_rows(self) -> pa.Table:
        """Return `SUMS` over all rows. It is called first, and once."""
        ...

    def unreadable_files(self) -> Sequence[DamagedFile]:
        """Return the files that can't be read, in order: no answer has anything of their rows.

        Only an engine that was told to read all columns looks for them; any other raises where it
        meets one.
        """
        ...

    def damage_reasons(self) -> Mapping[int, str]:
        """Return why packs can't be opened, by batch."""
        ...

    def count_doubled(self, sources: Sequence[str]) -> int:
        """Return how many rows of *sources* share their start with another row of the same source.

        Of the rows at one position all but one are counted.
        """
        ...

    def count_continuing(self) -> Mapping[str, int]:
        """Return, by source, how many rows continue the line of another row.

        That row has no line end, and ends where they start. A foreign peer has many files, so there
        the path is the same, too.
        """
        ...

    def size_copies(self, pairs: Sequence[SourceNames]) -> Mapping[SourceNames, tuple[int, int]]:
        """Return how many rows, and of how many bytes, the two sources of each pair begin with
        alike.

        Counted are the rows of the first one up to the first that the other one lacks: a row with
        the same start, end, message and original. Pairs without any may be missing.
        """
        ...


EngineFactory = Callable[[AppendTable], AuditEngine]
"""Makes an engine that reads the given version of `events`."""
