"""An application whose logs fill three tables of silver, and what has to be in each of them."""

from collections import Counter
from pathlib import Path
from typing import Final

from logdrive.pipeline.silver.balance import row_tables
from logdrive.pipeline.silver.schema import QUARANTINE, TEXT, silver_directory
from tests.faults.test_sigkill import Writer

ACCESS_RULES: Final = "".join(
    f'[[silver.format]]\npath = "*/{name}.log*"\nformat = "access"\n' for name in ("web", "auth")
)
"""What pipeline.toml says of the files. Without it a first batch of two lines, of which one is
broken, would be text.
"""

_GOOD: Final = '10.0.0.7 - - [17/May/2015:10:05:03 +0000] "GET /{} HTTP/1.1" 200 {} "-" "curl"'
_BROKEN: Final = (
    ("no access line", "worker {} was restarted, {}"),
    ("no such time", _GOOD.replace("17/May", "30/Feb")),
    ("status is not 100 to 599", _GOOD.replace(" 200 ", " 999 ")),
)
"""Lines that the format can't read, each with the reason."""
_BROKEN_OF: Final = 50  # lines, of which each of these is one

_COLUMNS: Final = {
    "access": ("url_path", "bytes"),
    QUARANTINE: ("reason", "message"),
    TEXT: ("message",),
}
"""Of each table, columns that tell a line from all others."""

SilverRow = tuple[str | int, ...]
"""The name of a table, and what the columns above have."""


class AccessWriter(Writer):
    """Its logs `web` and `auth` are access logs with some broken lines; `db` has no format."""

    def __init__(self, directory: Path, seed: int) -> None:
        super().__init__(directory, seed)
        self.rows = Counter[SilverRow]()  # what silver has to have of the lines so far

    def _line(self, name: str) -> bytes:
        text = super()._line(name).decode().rstrip()
        row: SilverRow = (TEXT, text)
        if name != "db":
            number, size, kind = self._number, len(text), self._number % _BROKEN_OF
            if kind < len(_BROKEN):
                reason, form = _BROKEN[kind]
                text = form.format(number, size)
                row = (QUARANTINE, reason, text)
            else:
                text = _GOOD.format(number, size)
                row = ("access", f"/{number}", size)
        self.rows[row] += 1
        return f"{text}\n".encode()


def silver_rows(directory: str) -> Counter[SilverRow]:
    """Return what silver has, in the form of `AccessWriter.rows`."""
    found = Counter[SilverRow]()
    for name, table in row_tables(silver_directory(directory)).items():
        rows = table.read_rows(_COLUMNS[name])
        columns = (rows[column].to_pylist() for column in _COLUMNS[name])
        found.update((name, *values) for values in zip(*columns, strict=True))
    return found
