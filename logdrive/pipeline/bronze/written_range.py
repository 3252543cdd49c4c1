"""What a task hands to the driver's commit. It needs no table format: workers import it."""

from dataclasses import dataclass

from logdrive.pipeline.decode.headers import BatchRow
from logdrive.pipeline.tables.files import AddedFile


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """What one task made of a range of one segment."""

    segment: str
    start: int  # offset in the segment
    end: int  # offset in the segment
    bytes: int  # stored bytes of its batches
    files: list[AddedFile]  # of rows for `events`, one a day
    headers: list[BatchRow]  # rows for `batches`
    seconds: float = 0.0  # that the task took
