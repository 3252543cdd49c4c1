"""`logdrive pipeline audit`: proves that tables have each byte once, or lists which they have not.

It imports what it needs once it is called: `--help` should not wait for pyarrow.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.output import emit_json
from logdrive.cli.tables.balance import balance_lines, balance_tables
from logdrive.cli.tables.engines import EngineOptions, FilesRead, audit_tables, engine_options
from logdrive.printable import escape_unprintable

if TYPE_CHECKING:
    from logdrive.pipeline.audit.against import Comparison
    from logdrive.pipeline.audit.deep import DeepAudit
    from logdrive.pipeline.silver.balance import SilverBalance

_INCOMPLETE = 1


@click.command(
    short_help="Prove that no byte was lost or duplicated, or list which were.",
    epilog="Example: logdrive pipeline audit /data/logs --json",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--allow-unknown-ends",
    is_flag=True,
    help="Exit with 0 if nothing is missing but the ends of files that vanished unread.",
)
@click.option("--deep", is_flag=True, help="Open every pack of the stream --from, too.")
@click.option(
    "--from",
    "source",
    metavar="URI",
    help="Stream that the tables were read from, for --deep.",
)
@click.option(
    "--against",
    "files",
    metavar="FILE",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False),
    help="File to compare with the tables byte for byte, of a compressed one what it unpacks to; "
    "may be given several times.",
)
@click.option(
    "--source",
    "compared_source",
    metavar="ID",
    help="Source that --against FILE is, if its path does not tell.",
)
@engine_options
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def audit(
    directory: str,
    allow_unknown_ends: bool,
    deep: bool,
    source: str | None,
    files: tuple[str, ...],
    compared_source: str | None,
    engine: EngineOptions,
    access: AccessOptions,
    as_json: bool,
) -> int:
    """Prove from the tables in DIRECTORY that no byte was lost or duplicated.

    Lists the bytes that were, and then exits with 1; with --deep also if a pack of the stream can't
    be opened, or does not hold what its header says, or if a part of the stream can't be read; with
    --against also if a file has other bytes than the tables, or more, or less. Where there are
    silver tables, each row of bronze must be one row of them, or it exits with 1, too; so it does
    while an erasure is not finished, during which silver is not judged.

    Of tables that begin at a time it proves what was received since, and says so, until `pipeline
    backfill` has filled what lies before.
    """
    if deep != (source is not None):
        raise click.UsageError("give --deep and --from URI together")
    if compared_source is not None and len(files) != 1:
        raise click.UsageError("give --source ID with one --against FILE")
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    found = None
    if source is not None:  # what it imports takes as long as an audit does
        from logdrive.cli.tables.deep_audit import audit_stream

        found = audit_stream(directory, source, access)
    compared: list[Comparison] = []
    if files:
        from logdrive.cli.tables.against import compare_files

        compared = compare_files(directory, files, compared_source)
    verdict, read = audit_tables(directory, engine)
    balance = None
    # rows that can't be read add up with nothing, and silver may still have those being erased
    if not verdict.unreadable and verdict.unfinished_erasure is None:
        balance = balance_tables(directory, full=engine.full)
    if as_json:
        emit_json(verdict.as_json() | _figures(read, found, compared, balance))
    else:
        _print_findings(read, found, compared, balance)
        from logdrive.pipeline.audit.text import print_verdict

        print_verdict(verdict, allow_unknown_ends=allow_unknown_ends)

    complete = verdict.complete or (allow_unknown_ends and verdict.complete_but_for_ends)
    fine = (
        all(one.same for one in compared),
        found is None or found.whole,
        balance is None or balance.adds_up,
        verdict.unfinished_erasure is None,
    )
    return 0 if complete and all(fine) else _INCOMPLETE


def _figures(
    files: FilesRead | None,
    found: "DeepAudit | None",
    compared: "Sequence[Comparison]",
    balance: "SilverBalance | None",
) -> dict[str, Any]:
    """Return what `--json` prints besides the verdict."""
    figures: dict[str, Any] = {}
    if files is not None:
        figures |= {"files_read": files.read, "files_known": files.known}
    if compared:
        figures["against"] = [asdict(one) | {"same": one.same} for one in compared]
    if found is not None:
        from logdrive.cli.tables.deep_audit import deep_figures

        figures |= deep_figures(found)
    if balance is not None:
        figures["silver"] = asdict(balance) | {"adds_up": balance.adds_up}
    return figures


def _print_findings(
    files: FilesRead | None,
    found: "DeepAudit | None",
    compared: "Sequence[Comparison]",
    balance: "SilverBalance | None",
) -> None:
    """Print what comes before the verdict."""
    if found is not None:
        from logdrive.cli.tables.deep_audit import print_packs

        print_packs(found)
    if compared:
        from logdrive.cli.tables.against import print_comparison

        for one in compared:
            print_comparison(one)
    if balance is not None:
        for line in balance_lines(balance):
            print(escape_unprintable(line))
    if files is not None and files.text:
        print(files.text)
