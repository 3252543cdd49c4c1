"""What the commit of a step to `sources` says: the step's files, and where silver is after it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from logdrive.pipeline.silver.backlog import BronzePosition
from logdrive.pipeline.silver.schema import BRONZE
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.pipeline.tables.files import AddedFile

STEP: Final = "step"
"""Name of the mark that counts the steps: every table shows by it whether it has its files."""

_KEY = "silver"  # of the note in the metadata


@dataclass(frozen=True, slots=True)
class StepNote:
    """A step: its number, its files by table, and how far silver is after it."""

    step: int
    position: BronzePosition
    bronze_id: str | None
    tables: Mapping[str, Sequence[AddedFile]]

    @property
    def marks(self) -> dict[str, int]:
        """The marks of the commits of this step."""
        return {STEP: self.step, BRONZE: self.position.done}

    def as_json(self) -> dict[str, Any]:
        """Return the note as `read_step_note` reads it."""
        return {_KEY: asdict(self)}


def read_step_note(sources: AppendTable) -> StepNote:
    """Return the note of the last step of the table `sources`; of a new one, that of step 0."""
    said = sources.read_last_note().get(_KEY)
    if said is None:
        return StepNote(0, BronzePosition(), None, {})
    at = said["position"]
    rest = tuple((name, size) for name, size in at["rest"])
    tables = {
        table: [AddedFile(**file) for file in files] for table, files in said["tables"].items()
    }
    return StepNote(
        said["step"], BronzePosition(at["done"], at["filling"], rest), said["bronze_id"], tables
    )
