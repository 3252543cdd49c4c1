"""`logdrive pipeline rebuild --table bronze`: the bronze tables anew, from their stream."""

import time

from logdrive.cli.access import AccessOptions
from logdrive.cli.output import emit_json
from logdrive.cli.pipeline_progress import show_progress
from logdrive.cli.stop_event import stop_on_signals
from logdrive.cli.tables.master import MASTER, warn_of_master


def rebuild_bronze_tables(
    directory: str,
    source: str,
    master: str | None,
    access: AccessOptions,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make the tables in *directory* anew from the stream *source*, or say what would be read."""
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.plan import Plan
    from logdrive.pipeline.rebuild_bronze import check_rebuild, rebuild_bronze

    plan = Plan(
        uri=source,
        directory=directory,
        master=master,
        tls=access.tls,
        login=access.login,
        once=True,
    )
    if dry_run:
        would = check_rebuild(plan)
        if as_json:
            emit_json({"read": would.stream_offsets, "drop_files": would.old_files})
        else:
            print(
                f"would read {would.stream_offsets:,} bytes or records of the stream, and replace "
                f"{would.old_files:,} files"
            )
        return
    warn_of_master(MASTER, master)
    started = time.monotonic()
    with stop_on_signals() as stop, show_progress(plan, quiet=as_json) as (starting, on_commit):
        done = rebuild_bronze(plan, stop, SystemDisk(), on_commit, starting=starting)
    seconds = round(time.monotonic() - started, 1)
    if as_json:
        emit_json({"swapped": done.swapped, "events": done.events, "seconds": seconds})
        return
    print(f"{done.events:,} events read in {seconds} s")
    if not done.swapped:
        print("stopped: the old tables are as they were; run this again to go on")
        return
    print(
        "the new tables are in place; where there is silver, make it anew: logdrive pipeline "
        f"rebuild {directory} --table silver"
    )
