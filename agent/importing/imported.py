"""What an import found in the configuration of another shipper: ours, and what it can't say."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Remark(NamedTuple):
    """A setting of the other shipper that has no counterpart, or one that differs."""

    key: str
    """The setting, as the other configuration has it, with the tables that it is in."""

    text: str
    """What becomes of it."""


@dataclass(slots=True)
class Imported:
    """A configuration in the making."""

    document: dict[str, Any] = field(default_factory=dict)
    """Tables of agent.toml."""

    remarks: list[Remark] = field(default_factory=list)
    """What the operator has to know, in the order of the other configuration."""

    def add_remark(self, key: str, text: str) -> None:
        """Add a remark about the setting *key*."""
        self.remarks.append(Remark(key, text))

    def add_input(self, table: dict[str, Any], where: str) -> None:
        """Add an [[input]] table, made of the input that is named *where* in remarks."""
        tables = self.document.setdefault("input", [])
        excluded = set(table.get("exclude", ()))
        before = {
            path
            for other in tables
            if excluded.issuperset(other.get("exclude", ()))
            for path in other["paths"]
        }
        if taken := [path for path in table["paths"] if path in before]:
            self.add_remark(
                where,
                f"gets nothing of {', '.join(taken)}: a file belongs to the first [[input]] that "
                "names it, and one before does; write what both do into that one",
            )
        tables.append(table)

    @property
    def has_input(self) -> bool:
        """Whether there is an input in it, without which no agent runs."""
        return "input" in self.document or "stdin" in self.document

    @property
    def output(self) -> dict[str, Any]:
        """The [output] table."""
        table: dict[str, Any] = self.document.setdefault("output", {})
        return table
