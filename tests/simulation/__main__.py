"""`python -m tests.simulation`: plays histories, replays one, shrinks a failing one, hunts bugs."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation import mutants
from tests.simulation.drawing.history import draw
from tests.simulation.history import Outcome, play
from tests.simulation.many import played
from tests.simulation.recipe import cooked, recipe_of
from tests.simulation.shrink import MOST_TRIES, shrink

_LAST_LINES = 60  # of a failing history's trace


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Histories of agents, receivers and stores, in virtual time.

    \b
    python -m tests.simulation run --seeds 1000        seeds 0 to 999
    python -m tests.simulation run --seeds 200 --fresh seeds not tried before
    python -m tests.simulation replay 4711             one history, with its trace
    python -m tests.simulation mutate                  deliberate bugs: what finds them, how soon
    """


@main.command()
@click.option("--seeds", default=300, show_default=True, help="How many histories.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--fresh", is_flag=True, help="Begin at a seed that comes from the clock.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="one a core", help="Processes.")
@click.option("--keep-going", is_flag=True, help="Don't stop at the first failure.")
def run(seeds: int, first: int, fresh: bool, jobs: int, keep_going: bool) -> None:
    """Play histories; the first failing one is cut down and printed. Ends with 1 if one failed."""
    first = int(time.time()) * 1000 if fresh else first
    began, events, failed = time.monotonic(), 0, list[int]()
    with _progress(seeds) as advance:
        for seed, broken, some in played(range(first, first + seeds), jobs):
            events += some
            advance()
            if broken:
                failed.append(seed)
                click.echo(f"seed {seed}: {broken}")
                if not keep_going:
                    break
    took = time.monotonic() - began
    pace = f"{took:.0f} s, {seeds / took * 60:.0f} histories a minute"
    click.echo(
        f"{seeds} histories from seed {first}, {events} events, {pace}, {len(failed)} failed"
    )
    for seed in failed[:1]:
        print_failure(play(draw(seed)))
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("recipe")
@click.option("--whole", is_flag=True, help="Don't cut a failing history down.")
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    help="Write the failing history to this .json file, to be kept as a test.",
)
def replay(recipe: str, whole: bool, save: Path | None) -> None:
    """Play one history and print what happened.

    RECIPE is a seed, what a failure printed, or a saved history.
    """
    try:
        plan = cooked(recipe)
    except (ValueError, OSError) as error:
        raise click.BadParameter(
            f"{recipe!r} is no seed, and nothing that a failure printed: {error}"
        ) from error
    outcome = play(plan)
    if outcome.broken is None:
        click.echo(outcome.trace.text())
        click.echo(
            f"every promise held: {outcome.events} events, {outcome.seconds:.0f} virtual "
            f"seconds, digest {outcome.digest}"
        )
    else:
        print_failure(outcome, cut=not whole, save=save)
        sys.exit(1)


@main.command()
@click.option("--only", multiple=True, help="Only bugs whose name begins so.")
@click.option(
    "--most",
    default=mutants.MOST_SEEDS,
    show_default=True,
    help="Seeds after which a bug counts as not found.",
)
@click.option("--jobs", default=os.cpu_count() or 1, show_default="one a core", help="Processes.")
@click.option("--no-tests", is_flag=True, help="Don't run unit tests on what no seed finds.")
def mutate(only: Sequence[str], most: int, jobs: int, no_tests: bool) -> None:
    """Patch in one deliberate bug at a time, and print which seed or unit test finds it first.

    Ends with 1 if one is not found.
    """
    missed = 0
    for mutant, discovery in mutants.hunt(only, most, jobs, tests=not no_tests):
        missed += discovery is None
        result = (
            "**not found** | |"
            if discovery is None
            else f"{'none' if discovery.seed is None else discovery.seed + 1} | {discovery.what} |"
        )
        click.echo(f"| {mutant.name} | {mutant.what} | {result}")
    sys.exit(1 if missed else 0)


def print_failure(outcome: Outcome, *, cut: bool = True, save: Path | None = None) -> None:
    """Print a failing history, cut down unless *cut* is False, and the command that replays it."""
    if cut:
        with _progress(MOST_TRIES, "cutting it down") as advance:
            outcome = shrink(outcome, tried=lambda best: advance())
    if save is not None:
        outcome.plan.save(save)
    click.echo(outcome.trace.text(_LAST_LINES))
    click.echo(f"\nseed {outcome.plan.seed}: {outcome.broken}")
    click.echo(f"again: python -m tests.simulation replay --whole {recipe_of(outcome.plan)}")


@contextmanager
def _progress(total: int, what: str = "histories") -> Iterator["_Advance"]:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=console, disable=not console.is_terminal, transient=True
    ) as progress:
        yield _Advance(progress, progress.add_task(what, total=total))


class _Advance:
    def __init__(self, progress: Progress, task: "object") -> None:
        self._progress, self._task = progress, task

    def __call__(self) -> None:
        self._progress.advance(self._task)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
