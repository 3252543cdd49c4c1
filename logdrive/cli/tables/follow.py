"""Silver and gold of a `pipeline run`: filled while it fills bronze, as far as they are wanted."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from logdrive.cli.tables.gold import follow_with_gold
from logdrive.cli.tables.silver import follow_with_silver, totals_text

if TYPE_CHECKING:
    from logdrive.pipeline.gold.fill import GoldFollower
    from logdrive.pipeline.metrics import RunMetrics
    from logdrive.pipeline.plan import Plan
    from logdrive.pipeline.silver.fill import SilverTotals


@dataclass(frozen=True, slots=True)
class DerivedTables:
    """The tables that a run fills from bronze; those that it does not fill are left out."""

    fill_silver: Callable[[], object]  # up to bronze's present end
    silver: "SilverTotals | None"  # what was added so far
    gold: "GoldFollower | None"

    def catch_up(self) -> None:
        """Fill silver up to bronze's present end, and gold if it was not filled just now."""
        self.fill_silver()
        if self.gold is not None:
            self.gold.catch_up_if_due()

    def finish(self) -> None:
        """Fill silver up to bronze's present end, and gold up to that of silver."""
        self.fill_silver()
        if self.gold is not None:
            self.gold.catch_up()

    def as_json(self) -> dict[str, Any]:
        """Return what `run --json` prints of them."""
        silver = {} if self.silver is None else {"silver": self.silver.as_json()}
        return silver if self.gold is None else silver | {"gold": self.gold.totals.as_json()}

    def summary(self) -> list[str]:
        """Return a line for people about silver, and one about gold."""
        silver = [] if self.silver is None else [f"silver: {totals_text(self.silver)}"]
        gold = [] if self.gold is None else [f"gold: {self.gold.totals.lines:,} lines counted"]
        return silver + gold


@contextmanager
def follow_with_tables(
    plan: "Plan",
    path: str | None,
    stop: threading.Event,
    metrics: "RunMetrics",
    *,
    with_silver: bool,
    with_gold: bool,
) -> Iterator[DerivedTables]:
    """Yield the silver and gold tables of *plan* that the options *with_silver* and *with_gold* or
    the configuration at *path* want. What happens in them is counted in *metrics*.

    Raises `ConfigError` and `UsageError` if gold is wanted without silver.
    """
    with (
        follow_with_silver(plan, path, stop, metrics, wanted=with_silver) as (fill_silver, silver),
        follow_with_gold(
            plan, path, stop, metrics, wanted=with_gold, with_silver=silver is not None
        ) as gold,
    ):
        yield DerivedTables(fill_silver, silver, gold)
