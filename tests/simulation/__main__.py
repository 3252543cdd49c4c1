"""`python -m tests.simulation`: plays histories by the hundred, replays one, cuts a failing one down, tries deliberate bugs."""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tests.simulation import mutants
from tests.simulation.history import Outcome, play
from tests.simulation.plan import cooked, draw
from tests.simulation.shrink import MOST_TRIES, shrink

_LAST_LINES = 60
_CHUNK = 5


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Histories of agents, receivers and stores, in virtual time.

    \b
    python -m tests.simulation run --seeds 1000        seeds 0 to 999
    python -m tests.simulation run --seeds 200 --fresh seeds that nobody has tried
    python -m tests.simulation replay 4711             one history, with its trace
    python -m tests.simulation mutate                  deliberate bugs: are they found, and how soon?
    """


@main.command()
@click.option("--seeds", default=300, show_default=True, help="How many histories.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--fresh", is_flag=True, help="Begin at a seed that comes from the clock.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="one a core", help="Processes.")
@click.option("--keep-going", is_flag=True, help="Don't stop at the first failure.")
def run(seeds: int, first: int, fresh: bool, jobs: int, keep_going: bool) -> None:
    """Play histories; a failing one is cut down and told. Ends with 1 where one failed."""
    first = int(time.time()) * 1000 if fresh else first
    began, events, failed = time.monotonic(), 0, list[int]()
    with _progress(seeds) as advance:
        for seed, broken, some in _played(range(first, first + seeds), jobs):
            events += some
            advance()
            if broken:
                failed.append(seed)
                click.echo(f"seed {seed}: {broken}")
                if not keep_going:
                    break
    took = time.monotonic() - began
    click.echo(f"{seeds} histories from seed {first}, {events} events, {took:.0f} s, {seeds / took * 60:.0f} histories a minute, {len(failed)} failed")
    for seed in failed[:1]:
        tell(play(draw(seed)))
    sys.exit(1 if failed else 0)


@main.command()
@click.argument("recipe")
@click.option("--whole", is_flag=True, help="Don't cut a failing history down.")
def replay(recipe: str, whole: bool) -> None:
    """Play one history and print what happened. RECIPE is a seed, or what a failure printed."""
    try:
        plan = cooked(recipe)
    except ValueError as error:
        raise click.BadParameter(f"{recipe!r} is no seed, and nothing that a failure printed: {error}") from error
    outcome = play(plan)
    if outcome.broken is None:
        click.echo(outcome.trace.text())
        click.echo(f"every promise held: {outcome.events} events, {outcome.seconds:.0f} virtual seconds, digest {outcome.digest}")
    else:
        tell(outcome, cut=not whole)
        sys.exit(1)


@main.command()
@click.option("--only", multiple=True, help="Only bugs whose name begins so.")
@click.option("--most", default=mutants.MOST_SEEDS, show_default=True, help="Seeds after which a bug counts as not found.")
@click.option("--jobs", default=os.cpu_count() or 1, show_default="one a core", help="Processes.")
def mutate(only: Sequence[str], most: int, jobs: int) -> None:
    """Patch in one deliberate bug at a time and say which seed finds it first. Ends with 1 where one is not found."""
    missed = 0
    for mutant, found in mutants.hunt(only, most, jobs):
        missed += found is None
        click.echo(f"| {mutant.name} | {mutant.what} | " + ("**not found** |" if found is None else f"{found.seed + 1} | {found.promise} |"))
    sys.exit(1 if missed else 0)


def tell(outcome: Outcome, *, cut: bool = True) -> None:
    """Print a failing history, cut down, and how to see it again."""
    if cut:
        with _progress(MOST_TRIES, "cutting it down") as advance:
            outcome = shrink(outcome, tried=lambda best: advance())
    click.echo(outcome.trace.text(_LAST_LINES))
    click.echo(f"\nseed {outcome.plan.seed}: {outcome.broken}")
    click.echo(f"again: python -m tests.simulation replay --whole {outcome.plan.recipe()}")


def _played(seeds: Sequence[int], jobs: int) -> Iterator[tuple[int, str, int]]:
    if jobs == 1:
        yield from map(_judged, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(_judged, seeds, chunksize=_CHUNK)
        finally:
            pool.shutdown(cancel_futures=True)


def _judged(seed: int) -> tuple[int, str, int]:
    outcome = play(draw(seed))
    return seed, str(outcome.broken) if outcome.broken is not None else "", outcome.events


@contextmanager
def _progress(total: int, what: str = "histories") -> Iterator["_Advance"]:
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        yield _Advance(progress, progress.add_task(what, total=total))


class _Advance:
    def __init__(self, progress: Progress, task: "object") -> None:
        self._progress, self._task = progress, task

    def __call__(self) -> None:
        self._progress.advance(self._task)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
