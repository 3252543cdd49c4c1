"""Says whether the silver tables add up with bronze, for `logdrive pipeline audit`."""

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logdrive.pipeline.silver.balance import SilverBalance, SourceBalance

_SOURCES = 20  # limit on the sources that are named


def balance_tables(directory: str, *, full: bool) -> "SilverBalance | None":
    """Return what silver holds of bronze in *directory*, None if there is no silver.

    With *full* all files are read, those too that earlier audits have counted. Raises
    `StorageError`.
    """
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.audit.known_counts import KnownCounts
    from logdrive.pipeline.silver.balance import count_sources, silver_balance

    counts = KnownCounts(directory, SystemDisk(), count_sources, full=full)
    balance = silver_balance(directory, counts.count_rows)
    if balance is not None:
        with suppress(OSError):  # the audit itself says that it can't keep what it has read
            counts.keep_counts()
    return balance


def balance_lines(balance: "SilverBalance") -> Iterator[str]:
    """Yield what *balance* says: sources that do not add up, and last the sums."""
    tables = ", ".join(f"{rows:,} in {name}" for name, rows in balance.tables.items())
    if balance.version is None:
        yield (
            f"silver is being made anew, and not compared yet: {tables or 'nothing in it so far'}; "
            "where nothing fills it now, `logdrive pipeline silver DIR --once` goes on"
        )
        return
    wrong = [one for one in balance.sources if one.missing]
    yield from map(_wrong_source, wrong[:_SOURCES])
    if len(wrong) > _SOURCES:
        yield f"… and {len(wrong) - _SOURCES:,} more sources whose rows do not add up"
    rows = sum(one.bronze for one in balance.sources)
    waiting = f"; {balance.waiting:,} wait" if balance.waiting else ""
    verdict = "silver adds up" if balance.adds_up else "SILVER DOES NOT ADD UP"
    yield f"{verdict}: {rows:,} rows of bronze are {tables or 'in no table'}{waiting}"


def _wrong_source(one: "SourceBalance") -> str:
    rows = f"{abs(one.missing):,} {'row' if abs(one.missing) == 1 else 'rows'}"
    what = "in no silver table" if one.missing > 0 else "in silver more than once"
    return (
        f"source {one.source or '(none)'}: {rows} {what} (bronze {one.bronze:,}, silver "
        f"{one.silver:,}, quarantine {one.quarantine:,}, duplicates {one.duplicates:,})"
    )
