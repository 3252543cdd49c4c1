"""What a deliberate bug is."""

from dataclasses import dataclass

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: in *module*, each old text, which stands there once, is replaced by a new one."""

    name: str
    what: str
    module: str
    edits: Edits
