"""What a deliberate bug is."""

from dataclasses import dataclass

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: in *module*, each old text, which stands there once, is replaced by a new one.

    *over_s2*, *over_iggy*: it is hunted in histories over S2, or over Iggy; *of_files*: in
    histories of files; *of_events*: in those whose agents join lines, and leave some out.
    """

    name: str
    what: str
    module: str
    edits: Edits
    over_s2: bool = False
    over_iggy: bool = False
    of_files: bool = False
    of_events: bool = False
