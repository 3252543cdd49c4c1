"""`logdrive store verify`: every byte of a store, and with `--deep` what its packs hold."""

import os
import sys
from dataclasses import asdict

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from logdrive.address import StreamAddress
from logdrive.cli.output import emit_json
from logdrive.cli.pack_faults import pack_figures, pack_verdict
from logdrive.cli.streams import parse_stream_address
from logdrive.host.disk import SystemDisk
from logdrive.printable import escape_unprintable
from logdrive.services.stored_packs import StoredPacks
from logdrive.store.verify.verify import Verification
from logdrive.store.verify.verify import verify as verify_store


@click.command(
    short_help="Verify every byte of a store.",
    epilog="Example: logdrive store verify /var/lib/logdrive/store --json",
)
@click.argument("place", metavar="URI|DIR")
@click.option(
    "--deep",
    is_flag=True,
    help="Open every pack, too: does it hold what its header says?",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(place: str, deep: bool, as_json: bool) -> None:
    """Verify every byte of a store against checksums, links and indexes.

    Works while the store is in use, and changes nothing. Exits with 1 on damage, and if a pack
    can't be opened: where the store is not damaged, the client of its source sent it so.
    """
    # a plain path is a store's directory
    address = parse_stream_address(place) if "://" in place else None
    if not isinstance(address, StreamAddress | None):
        raise click.BadParameter(
            "verify reads the store's files: give its directory, not the address of a service",
            param_hint="URI|DIR",
        )
    directory = os.path.abspath(address.path if address is not None else place)
    packs = StoredPacks() if deep else None
    verification = _verify_with_bar(directory, packs)
    if as_json:
        figures = pack_figures(packs) if packs is not None else {}
        emit_json({"intact": verification.intact, **asdict(verification), **figures})
    else:
        _print_findings(verification, packs)
    sys.exit(0 if verification.intact and not (packs is not None and packs.faulty) else 1)


def _verify_with_bar(directory: str, packs: StoredPacks | None) -> Verification:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bars:
        reading = bars.add_task("reading", total=None)
        opening = bars.add_task("opening packs", total=None, visible=packs is not None)
        return verify_store(
            SystemDisk(),
            directory,
            lambda done, whole: bars.update(reading, completed=done, total=whole),
            inspect=None if packs is None else packs.inspect_segment,
            inspected=lambda done, whole: bars.update(opening, completed=done, total=whole),
        )


def _print_findings(verification: Verification, packs: StoredPacks | None) -> None:
    for damage in verification.damages:
        print(
            escape_unprintable(
                f"{damage.file} is damaged at offset {damage.offset}: {damage.reason}"
            )
        )
    for fault in packs.faults if packs is not None else ():
        print(escape_unprintable(fault.text))
    print(escape_unprintable(_verdict(verification)))
    if packs is not None:
        print(_verdict_on_packs(verification, packs))


def _verdict(verification: Verification) -> str:
    verdict = (
        "every byte is as it was written"
        if verification.intact
        else f"{len(verification.damages)} damaged places"
    )
    read = (
        f"{verification.files} files, {verification.bytes:,} bytes, "
        f"{verification.entries:,} entries, {verification.segments:,} segments"
    )
    torn = (
        f", {verification.torn_bytes} torn bytes at the end, which the next start will cut off"
        if verification.torn_bytes
        else ""
    )
    in_use = ", in use meanwhile" if verification.held else ""
    return f"{verification.directory}: {verdict} ({read}{torn}{in_use})"


def _verdict_on_packs(verification: Verification, packs: StoredPacks) -> str:
    cause = " (the store is not damaged: clients sent them so)" if verification.intact else ""
    unread = verification.unread_bytes
    missed = f"; {unread:,} bytes of segments could not be read" if unread else ""
    return pack_verdict(packs, cause=cause) + missed
