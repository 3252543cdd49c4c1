"""`python -m bench`: measure, print, write build/bench.json."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console

from bench.catalog import groups
from bench.measure import Benchmark, Outcome, Setting, run_interleaved
from bench.report import print_table, write_json

_PAGE_WIDTH = 200  # of a table that goes to a file or a pipe


def _chosen(group: Sequence[Benchmark], only: Sequence[str]) -> list[Benchmark]:
    return [
        benchmark for benchmark in group if not only or any(part in benchmark.name for part in only)
    ]


@click.command()
@click.option(
    "--lines",
    default=1_000_000,
    show_default=True,
    type=click.IntRange(1000),
    help="Lines of the log that is shipped.",
)
@click.option(
    "--runs",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="Runs of each benchmark, interleaved; medians are reported.",
)
@click.option(
    "--store-mib",
    default=10_240,
    show_default=True,
    type=click.IntRange(256),
    help="Size of the store that is opened.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="PART",
    help="Only benchmarks with PART in their name; may be given again.",
)
@click.option(
    "--work",
    default="build/bench",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where logs and stores are put.",
)
@click.option(
    "--out",
    default="build/bench.json",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Where the figures go.",
)
@click.option("--list", "listing", is_flag=True, help="Name the benchmarks and end.")
def main(
    lines: int,
    runs: int,
    store_mib: int,
    only: tuple[str, ...],
    work: Path,
    out: Path,
    listing: bool,
) -> None:
    """Measure logdrive and its peers on this machine, on 127.0.0.1 only.

    Each group's benchmarks are run A B C A B C …, so that noise meets all alike. A peer that is not
    installed is left out, with a word how to install it. Ends with 1 where something failed.
    """
    console = Console() if sys.stdout.isatty() else Console(width=_PAGE_WIDTH)
    chosen = [picked for group in groups() if (picked := _chosen(group, only))]
    every = [benchmark for group in chosen for benchmark in group]
    if not every:
        raise click.UsageError(
            f"no benchmark has {' or '.join(only)} in its name; --list names them"
        )
    if listing:
        for benchmark in every:
            console.print(
                f"{benchmark.name:<42} {benchmark.title}", highlight=False, soft_wrap=True
            )
        return
    work.mkdir(parents=True, exist_ok=True)
    setting, outcome = Setting(lines, work.absolute(), store_mib), Outcome()
    for group in chosen:
        run_interleaved(
            group,
            setting,
            runs,
            outcome,
            lambda text: console.print(text, highlight=False, markup=False, soft_wrap=True),
        )
        write_json(out, outcome, every)
    print_table(console, outcome, every)
    console.print(f"written to {out}", highlight=False)
    sys.exit(1 if outcome.failed else 0)


main()
