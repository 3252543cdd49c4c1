"""Bronze with lines of several formats, and silver filled from it without Spark."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from deltalake import DeltaTable

from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.silver.config import SilverConfig
from logdrive.pipeline.silver.schema import LEDGERS
from logdrive.pipeline.silver.writer import Silver, StepCounts
from logdrive.pipeline.tables.open_table import is_table
from logdrive.pipeline.tasks import InProcess
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import Segment, lines

BROKEN = b"this is no access line\n"


class Stream:
    """Files whose lines become bronze."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ends: dict[str, int] = {}
        self.segment = Segment()

    def add(self, **lines: bytes) -> None:
        """Add *lines* to the files of these names, as one version of bronze."""
        for name, data in lines.items():
            self._ends[name] = send(self.segment, name, data, self._ends.get(name, 0))
        catch_up(self._directory, self.segment)


def access_lines(first: int, count: int) -> bytes:
    """Return lines as a web server writes them; *first* and later numbers are their paths."""
    return b"".join(
        b'10.0.0.%d - - [17/May/2015:10:05:%02d +0000] "GET /%d HTTP/1.1" 200 %d "-" "curl"\n'
        % (n % 256, n % 60, n, n * 7)
        for n in range(first, first + count)
    )


def foreign(segment: Segment, events: Sequence[dict[str, Any]], client: str = "beat") -> None:
    """Add a window of a foreign peer."""
    segment.foreign(client, [orjson.dumps(event) for event in events])


def silver_of(directory: Path, config: SilverConfig | None = None) -> Silver:
    return Silver(
        str(directory),
        config or SilverConfig(),
        InProcess(),
        clock=SystemClock(),
        disk=SystemDisk(),
    )


def fill(directory: Path, config: SilverConfig | None = None) -> list[StepCounts]:
    """Run all steps there are."""
    steps = []
    with silver_of(directory, config) as tables:
        while (counts := tables.next_step()) is not None:
            steps.append(counts)
    return steps


def read(directory: Path, table: str) -> pa.Table:
    return DeltaTable(str(directory / "silver" / table)).to_pyarrow_table()


def tables_of(directory: Path) -> set[str]:
    """Return the names of the silver tables that have rows of bronze."""
    place = directory / "silver"
    return {
        entry.name
        for entry in place.iterdir()
        if is_table(str(entry)) and entry.name not in LEDGERS
    }


def coordinates(rows: pa.Table) -> Counter[tuple[int, int]]:
    return Counter(zip(rows["batch"].to_pylist(), rows["ordinal"].to_pylist(), strict=True))


def bronze_rows(directory: Path) -> Counter[tuple[int, int]]:
    return coordinates(DeltaTable(str(directory / "bronze" / "events")).to_pyarrow_table())


def silver_rows(directory: Path) -> Counter[tuple[int, int]]:
    """Return how often each row of bronze is in silver."""
    found: Counter[tuple[int, int]] = Counter()
    for table in tables_of(directory):
        found.update(coordinates(read(directory, table)))
    return found


def grow(directory: Path, segment: Segment, part: int) -> None:
    """Add a version to bronze: access lines, one of them broken, text, and a foreign window."""
    size = sum(len(access_lines(n * 40, 40)) + len(BROKEN) for n in range(part))
    send(segment, "web", access_lines(part * 40, 40) + BROKEN, size)
    send(
        segment,
        "app",
        lines("app", part, 1) * 30,
        sum(len(lines("app", n, 1)) * 30 for n in range(part)),
    )
    foreign(segment, [{"message": f"event {part} {n}", "service": "mail"} for n in range(25)])
    segment.stray(b"no header stands before this")
    catch_up(directory, segment)
