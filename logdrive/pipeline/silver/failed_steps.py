"""Files of steps that failed: found by the labels in their names, and removed."""

import os
from contextlib import suppress
from typing import Final

from logdrive.errors import StorageError
from logdrive.pipeline.silver.schema import SOURCES
from logdrive.pipeline.silver.step_note import STEP
from logdrive.pipeline.tables.files import remove_labelled
from logdrive.pipeline.tables.open_table import open_table_as_it_is


class FailedSteps:
    """The steps of one process that failed, whose files may still be there.

    A step whose commit raised an error may be committed all the same: then `sources` has its mark,
    its files are named there, and they stay.
    """

    def __init__(self, place: str) -> None:
        """*place* is the directory of the silver tables."""
        self._place: Final = place
        # what is in the names of the files of steps that surely failed
        self._labels: list[str] = []
        # the label and the number of the step whose commit has begun
        self._committing: tuple[str, int] | None = None

    def add(self, label: str) -> None:
        """Note that the step whose files have *label* in their names has failed."""
        self._labels.append(label)

    def begin_commit(self, label: str, step: int) -> None:
        """Note that what is done next commits the step with *label*, by the mark *step*."""
        self._committing = label, step

    def end_commit(self) -> None:
        """Note that the commit is made, and remove files for the last time: none is written."""
        self._committing = None
        self.remove_files()
        self._labels.clear()

    def remove_files(self) -> None:
        """Remove the files of steps that failed. Tasks of Spark may still be writing some then, so
        it is done again later.
        """
        with suppress(OSError, StorageError):  # it is looked at again later
            self._settle_commit()
        for label in self._labels:
            with suppress(OSError):  # maintenance removes them
                remove_labelled(self._place, label)

    def _settle_commit(self) -> None:
        """Find out whether the commit that has begun was made: it was not if its mark is absent."""
        if self._committing is None:
            return
        label, step = self._committing
        sources = open_table_as_it_is(os.path.join(self._place, SOURCES))
        if (sources.mark(STEP) or 0) < step:
            self._labels.append(label)
        self._committing = None
