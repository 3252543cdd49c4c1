"""Says which packs a command could not open (rule R8)."""

from logdrive.cli.output import print_error
from logdrive.packs.faults import PackFault


class PackFaultPrinter:
    """Prints each fault on standard error, and remembers that there was one."""

    def __init__(self) -> None:
        self.count = 0
        """Number of packs that could not be opened."""

    def on_fault(self, fault: PackFault) -> None:
        """Print *fault*; the command goes on with what follows it."""
        self.count += 1
        print_error(f"{fault.text}; its lines are left out")
