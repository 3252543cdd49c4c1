"""`logdrive pipeline backfill`: fills what lies before the beginning of bronze tables."""

import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.pipeline_plan import parse_start_option, plan_from_config, plan_from_options
from logdrive.cli.pipeline_progress import show_progress
from logdrive.cli.stop_event import stop_on_signals
from logdrive.cli.tables.master import MASTER, master_option, warn_of_master
from logdrive.host.heap import settle_heap

if TYPE_CHECKING:
    from logdrive.pipeline.backfill import BackfillScope
    from logdrive.pipeline.plan import Plan
    from logdrive.pipeline.read.start import Start


@click.command(
    short_help="Fill what lies before the beginning of tables.",
    epilog="Example: logdrive pipeline backfill --config pipeline.toml --dry-run && logdrive "
    "pipeline backfill --from pravega://127.0.0.1:6000/logs/events --to /data/logs --until 7d",
)
@click.option(
    "--config",
    "path",
    type=click.Path(dir_okay=False),
    help="TOML file of the run that fills the tables, instead of --from and --to.",
)
@click.option("--from", "source", metavar="URI", help="Stream that the tables were read from.")
@click.option(
    "--to",
    "target",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Directory of the tables.",
)
@click.option(
    "--until",
    metavar="TIME|AGE",
    callback=lambda _, __, value: parse_start_option("--until", value),
    help="Fill only what was received before a time (2026-11-20T00:00Z), or an age ago (7d).  "
    "[default: up to the tables' beginning]",
)
@master_option("; without it this process does the work, with a thread a core.")
@click.option("--dry-run", is_flag=True, help="Only say what would be read.")
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def backfill(
    path: str | None,
    source: str | None,
    target: str | None,
    until: "Start | None",
    master: str | None,
    dry_run: bool,
    access: AccessOptions,
    as_json: bool,
) -> None:
    """Fill what lies before the beginning of bronze tables that `run --start` began at a time.

    It reads the stream from its start up to where the tables begin, each byte exactly once, also
    while `pipeline run` goes on. What was stopped or killed goes on when it is run again, and where
    nothing is missing, nothing is done. Silver and gold take the new rows like any others.

    What the stream's retention has removed can't be filled: it is said here, and is a gap in the
    audit afterwards.
    """
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    from logdrive.pipeline.backfill import check_backfill, run_backfill

    configure_logging("info")
    settle_heap()
    plan = (
        plan_from_config(path, True, master)
        if path
        else plan_from_options(source, target, True, master, access)
    )
    plan = replace(plan, once=True)
    until_ms = None if until is None else until.resolve(time.time_ns() // 1_000_000)
    if dry_run:
        _print_scope(plan, check_backfill(plan, until_ms), as_json=as_json)
        return
    warn_of_master(MASTER if master else f"spark.master in {path}", plan.master)
    started = time.monotonic()
    with stop_on_signals() as stop, show_progress(plan, quiet=as_json) as (starting, on_commit):
        done = run_backfill(plan, stop, on_commit, starting=starting, until_ms=until_ms)
    seconds = round(time.monotonic() - started, 1)
    result = done.result
    if as_json:
        # the scope's `removed` counts: a backfill's loops find none besides
        emit_json(result.as_json() | _scope_values(done.scope) | {"seconds": seconds})
        return
    if done.scope.nothing:
        print(f"nothing to fill: {done.scope.nothing}")
        return
    print(
        f"{result.events:,} events of {result.batches:,} batches, {result.bytes:,} stored bytes, "
        f"in {seconds} s"
    )
    if result.waiting:
        print("stopped: run this again to go on")
    elif any(part.end < part.beginning for part in done.scope.parts):
        print("filled up to the time given; run this without --until to fill the rest")
    else:
        print("the tables have all that the stream has from before their beginning")


def _scope_values(scope: "BackfillScope") -> dict[str, object]:
    return {
        "nothing": scope.nothing or None,
        "removed": scope.removed,
        "segments": [asdict(part) for part in scope.parts],
    }


def _print_scope(plan: "Plan", scope: "BackfillScope", *, as_json: bool) -> None:
    if as_json:
        emit_json(_scope_values(scope) | {"read": scope.to_read})
        return
    if scope.nothing:
        print(f"nothing to fill: {scope.nothing}")
        return
    # offsets in S2 and in Iggy count records
    unit = "records" if plan.uri.partition(":")[0].lower() in ("s2", "iggy") else "bytes"
    for part in scope.parts:
        print(f"{part.segment}: {part.to_read:,} {unit}, from {part.first:,} to {part.end:,}")
        if part.removed:
            print(
                f"{part.segment}: {part.removed:,} {unit} before that were removed by retention, "
                "and would be a gap in the audit"
            )
    print(f"would read {scope.to_read:,} {unit} of the stream")
