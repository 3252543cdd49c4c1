"""Says which packs a command could not open (rule R8)."""

from typing import Any

from logdrive.cli.output import print_error
from logdrive.packs.faults import PackFault
from logdrive.services.stored_packs import StoredPacks


class PackFaultPrinter:
    """Prints each fault on standard error, and remembers that there was one."""

    def __init__(self) -> None:
        self.count = 0
        """Number of packs that could not be opened."""

    def on_fault(self, fault: PackFault) -> None:
        """Print *fault*; the command goes on with what follows it."""
        self.count += 1
        print_error(f"{fault.text}; its lines are left out")


def pack_figures(packs: StoredPacks) -> dict[str, Any]:
    """Return what `--json` prints of *packs* that were looked at."""
    return {
        "packs": packs.opened,
        "faulty_packs": packs.faulty,
        "pack_faults": [fault._asdict() for fault in packs.faults],
    }


def pack_verdict(packs: StoredPacks, *, place: str = "", cause: str = "") -> str:
    """Return how many *packs* there are, and how many of them can't be opened, for *cause*."""
    more = packs.faulty - len(packs.faults)
    unnamed = f", {more:,} of those not named above" if more else ""
    faulty = (
        f"{packs.faulty:,} of them can't be opened{cause}" if packs.faulty else "all of them whole"
    )
    noun = "pack" if packs.opened == 1 else "packs"
    return f"{packs.opened:,} {noun}{place}, {faulty}{unnamed}"
