"""`logdrive pipeline erase`: removes lines from all tables, and leaves a record for the audit."""

import getpass
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from logdrive.cli.output import configure_logging, emit_json
from logdrive.printable import escape_unprintable

if TYPE_CHECKING:
    from logdrive.pipeline.erase import ErasedCounts, MatchedLine, MatchedRows

_FILES = 20  # limit on files that a dry run lists
_SAMPLES = 5
_WIDTH = 160  # characters of a line that a dry run shows


@click.command(
    short_help="Remove lines from all tables, and tell the audit.",
    epilog="Example: logdrive pipeline erase /data/logs --where "
    "\"message LIKE '%4111111111111111%'\" --why 'card numbers, ticket 17'",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--where",
    required=True,
    metavar="CONDITION",
    help="Which rows of bronze/events, in SQL: columns such as message, host, path, source, start, "
    "received.",
)
@click.option("--why", metavar="TEXT", help="Reason, which the audit repeats; not the data itself.")
@click.option(
    "--by", metavar="NAME", default=getpass.getuser, show_default="you", help="Who erases."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say how many rows that would be, of which files, and show some of them.",
)
@click.option(
    "--samples",
    type=click.IntRange(min=0, max=1000),
    default=_SAMPLES,
    show_default=True,
    help="How many of the lines --dry-run shows.",
)
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def erase(
    directory: str,
    where: str,
    why: str | None,
    by: str,
    dry_run: bool,
    samples: int,
    yes: bool,
    as_json: bool,
) -> None:
    """Remove the lines for which CONDITION is true from DIRECTORY's tables, and delete old files.

    Bronze, silver, its quarantine and what Filebeat sent lose them; `bronze/erased` keeps where
    they were, for the audit. Nothing may write the tables meanwhile. Older versions of the tables
    can't be read any more. What an interrupted rebuild has left half made is deleted; while one
    runs, this is refused. The stream has the lines as long as its retention keeps them.
    """
    from logdrive.host.clock import SystemClock
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.erase import erase_rows, find_erased, sample_erased

    configure_logging("info")
    try:
        found = find_erased(directory, where)
        if dry_run:
            matched = sample_erased(directory, where, samples)
            if as_json:
                emit_json(asdict(found) | asdict(matched))
                return
            _print_counts(found, "would be ")
            _print_matched(matched, found.rows)
            return
        if found.rows and not yes:
            click.confirm(
                f"erase {found.rows:,} rows of {found.sources:,} sources for good?",
                abort=True,
                err=True,
            )
        done = erase_rows(directory, where, by=by, why=why, clock=SystemClock(), disk=SystemDisk())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--where") from error
    if as_json:
        emit_json(asdict(done))
    else:
        _print_counts(done)


def _print_counts(counts: "ErasedCounts", would: str = "") -> None:
    """Print what was erased, or *would* be."""
    print(f"{counts.rows:,} rows of {counts.sources:,} sources {would}erased")
    if counts.finished is not None:
        before = f"{counts.finished.rows:,} rows {counts.finished.who}"
        print(f"the erasure of {before}, which was interrupted, {would or 'is '}finished")
    for name, rows in counts.tables.items():
        print(f"  {name}: {rows:,}")
    if counts.gold:
        print("  gold was dropped: count it anew with `logdrive pipeline gold`")
    for name in counts.leftovers:
        print(f"  {name} {would}deleted: an interrupted command left it, with lines in it")


def _print_matched(matched: "MatchedRows", rows: int) -> None:
    """Print the files of *matched*, and its samples, which are some of *rows*."""
    for file in matched.files[:_FILES]:
        named = f"{file.path or '(no path)'} on {file.host or '(no host)'}"
        print(escape_unprintable(f"  {file.rows:,} of {named}, source {file.source or '(none)'}"))
    if len(matched.files) > _FILES:
        print(f"  … and {len(matched.files) - _FILES:,} more files, which --json lists")
    if matched.samples:
        shown = f"{len(matched.samples):,} of these {rows:,} rows"
        print(f"{shown}, each cut to {_WIDTH} characters (--samples N for more):")
    for line in matched.samples:
        print(f"  {_sample(line)}")


def _sample(line: "MatchedLine") -> str:
    at = "" if line.start is None else f" at {line.start:,}"
    text = escape_unprintable(line.message)
    cut = text if len(text) <= _WIDTH else f"{text[:_WIDTH]}…"
    return f"{escape_unprintable(line.path or line.source or '?')}{at}: {cut}"
