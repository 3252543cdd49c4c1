"""Lines of values between delimiters, named by the file's first line or by the configuration."""

import csv
from collections.abc import Callable, Sequence
from typing import Any

from agent.config.formats import FormatTable
from agent.events.event import Event


class CsvReader:
    """Reads lines of one file. A line with another number of values than columns has another form.

    Values that hold a line end are of no use here, as an event is a line.
    """

    def __init__(self, table: FormatTable, first_line: Callable[[], str | None]) -> None:
        """Take the names of columns from *table*, else from *first_line*.

        That returns the first line of the file, or None if it can't be read.
        """
        self._delimiter = table.delimiter
        self._quote = table.quote
        self._first_line = first_line
        self._header = not table.columns  # the file's first line is one
        self._columns: Sequence[str] | None = table.columns or None

    def read_values(self, event: Event) -> dict[str, Any] | None:
        """Return the values of a line by column; none for the line that names these."""
        if self._header and event.start == 0:
            self._columns = self._names(event.message)
            return {}
        if self._columns is None:
            line = self._first_line()
            self._columns = None if line is None else self._names(line)
        values = self._split(event.message)
        if self._columns is None or len(values) != len(self._columns):
            return None
        return dict(zip(self._columns, values, strict=True))

    def _names(self, line: str) -> list[str] | None:
        """Return the names in a *line*; each is told from those before it."""
        names: dict[str, None] = {}
        for number, value in enumerate(self._split(line), 1):
            name = value.strip().removeprefix("\ufeff") or f"column_{number}"
            names[name if name not in names else f"{name}_{number}"] = None
        return list(names) or None

    def _split(self, line: str) -> list[str]:
        if self._quote not in line:
            return line.split(self._delimiter)
        try:
            reader = csv.reader(
                [line], delimiter=self._delimiter, quotechar=self._quote, strict=True
            )
            return next(reader, [])
        except csv.Error:
            return []
