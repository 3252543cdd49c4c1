"""What publications have done, or would do, to the copies of tables."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(slots=True)
class TableTotals:
    """What was done to the copy of one table."""

    table: str
    version: int
    """The version that the copy has now."""
    files: int = 0
    """Files of rows that were written."""
    bytes: int = 0
    entries: int = 0
    """Entries and checkpoints of the log that were written."""
    deleted: int = 0
    """Objects that were deleted, as the table has lost these files."""


@dataclass(slots=True)
class PublishTotals:
    """What was done to the copies of all tables, in one round or several."""

    tables: dict[str, TableTotals] = field(default_factory=dict)
    erased: dict[str, int] = field(default_factory=dict)
    """Objects of copies that were deleted as a whole, since they may have had erased lines."""

    def add_table(self, totals: TableTotals) -> None:
        """Add what was done to one copy."""
        before = self.tables.setdefault(totals.table, TableTotals(totals.table, 0))
        before.version = totals.version
        before.files += totals.files
        before.bytes += totals.bytes
        before.entries += totals.entries
        before.deleted += totals.deleted

    def add_erased(self, copies: Mapping[str, int]) -> None:
        """Add copies that were deleted as a whole, and of how many objects they were."""
        for table, objects in copies.items():
            self.erased[table] = self.erased.get(table, 0) + objects

    def as_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "tables": [asdict(totals) for totals in self.tables.values()],
            "erased_copies": [
                {"table": table, "deleted": objects} for table, objects in self.erased.items()
            ],
        }
