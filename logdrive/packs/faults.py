"""Packs that can't be opened, as a report names them (rule R8)."""

from typing import NamedTuple

from logdrive.model.batch_walker import BatchRef
from logdrive.packs.pack import PackError


class PackFault(NamedTuple):
    """A pack that can't be opened, or whose content contradicts its batch's header.

    The batch is stored as it came. Only the client that sent the pack can have made it so.
    """

    segment: str  # full name
    offset: int  # where its batch begins in the segment
    source: str  # the source's id
    previous: int | None  # position before the batch, in bytes of the file
    position: int | None  # position after it
    reason: str  # what is wrong

    @classmethod
    def of(cls, segment: str, batch: BatchRef, error: PackError) -> "PackFault":
        """Return the fault of *batch* of *segment*, which has a header, for *error*."""
        assert batch.header is not None, "only a header says that a record is a pack"
        header = batch.header
        return cls(
            segment, batch.offset, header.source, header.previous, header.position, str(error)
        )

    @property
    def text(self) -> str:
        """The fault as one line for a person."""
        return (
            f"{self.segment} at {self.offset}: a pack of source {self.source}, bytes "
            f"{self.previous} to {self.position}, can't be opened: {self.reason}"
        )
