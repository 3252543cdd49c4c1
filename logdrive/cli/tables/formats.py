"""`logdrive pipeline formats`: tries formats on files, before they are configured."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from logdrive.cli.output import emit_json
from logdrive.errors import StorageError, os_error_text
from logdrive.printable import escape_unprintable

if TYPE_CHECKING:
    from logdrive.pipeline.formats.format import FormatOptions
    from logdrive.pipeline.formats.survey import FormatSurvey

_SHOWN = 160  # characters of a line, or a value
_MIB = 1 << 20


@click.command(
    short_help="Show which format the lines of files have, and which lines it can't read.",
    epilog="Example: logdrive pipeline formats /var/log/*.log",
)
@click.argument("files", type=click.Path(exists=True, dir_okay=False), nargs=-1, required=True)
@click.option("--format", "name", metavar="NAME", help="Format to try, instead of the recognized.")
@click.option(
    "--zone",
    default="UTC",
    show_default=True,
    help="Time zone of times that name none, such as Europe/Berlin.",
)
@click.option(
    "--mib",
    type=click.IntRange(min=1, max=1024),
    default=16,
    show_default=True,
    help="How much of each file to read, in MiB; of a compressed one, unpacked.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def formats(files: tuple[str, ...], name: str | None, zone: str, mib: int, as_json: bool) -> None:
    """Try on FILES what silver would make of their lines: try a format before you configure it.

    For each file: the format that is recognized, how many lines it reads, the first line as
    columns, and the first lines that it can't read, with the reasons that stand in `quarantine`.
    Compressed files (.gz, .bz2, .xz, .zst) are unpacked, as agents do it.
    """
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    from logdrive.pipeline.formats.format import FormatOptions

    if name == "text":
        raise click.UsageError("text takes every line as it is: there is nothing to try")
    name = None if name == "auto" else name
    options = FormatOptions(zone=zone)
    surveys = {file: _survey(file, name, options, mib * _MIB) for file in files}
    if as_json:
        emit_json({"files": {file: survey.as_json() for file, survey in surveys.items()}})
        return
    for file, survey in surveys.items():
        _print(file, survey)


def _survey(file: str, name: str | None, options: "FormatOptions", size: int) -> "FormatSurvey":
    from logdrive.cli.tables.unpacked import read_beginning
    from logdrive.pipeline.formats.survey import survey_text

    try:
        text = read_beginning(file, size)
        written = Path(file).stat().st_mtime
    except OSError as error:
        raise StorageError(f"{file} can't be read: {os_error_text(error)}") from error
    if len(text) == size:  # the last line may be cut
        text = text[: text.rfind(b"\n") + 1] or text
    try:
        return survey_text(text, datetime.fromtimestamp(written, UTC), name, options)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def _print(file: str, survey: "FormatSurvey") -> None:
    print(f"{escape_unprintable(file)}: {_verdict(survey)}")
    if survey.first is not None and survey.last is not None:
        print(f"  from {survey.first:%Y-%m-%d %H:%M:%S} to {survey.last:%Y-%m-%d %H:%M:%S}, UTC")
    for name, value in survey.example.items():
        print(f"  {name}: {_short(value)}")
    for reason, count in survey.reasons.items():
        print(f"  {count:,} {'line' if count == 1 else 'lines'}: {reason}")
    for reason, line in survey.refused:
        print(f"  {reason}: {_short(line)}")


def _verdict(survey: "FormatSurvey") -> str:
    if survey.format is None:
        return f"no format is recognized: its {survey.lines:,} lines go to the table text"
    share = survey.read / survey.lines if survey.lines else 1.0
    percent = f"{int(share * 10_000) / 100:.2f} %"  # never rounded up to 100 %
    return f"{survey.format}, table {survey.table}: reads {percent} of {survey.lines:,} lines"


def _short(value: Any) -> str:
    text = escape_unprintable(str(value))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
