"""The commits of a Delta table, from its own log: when each was made, and what it added."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit that added rows."""

    seconds: float  # since 1970, when its file was written
    rows: int


def commits(table: Path) -> list[Commit]:
    """Return the commits of *table* that added rows, in order; [] if there is no table yet."""
    found = []
    for path in sorted((table / "_delta_log").glob("[0-9]*.json")):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        rows = sum(
            json.loads(action["add"]["stats"])["numRecords"]
            for action in actions
            if "add" in action and action["add"]["dataChange"]
        )
        if rows:
            found.append(Commit(path.stat().st_mtime, rows))
    return found
