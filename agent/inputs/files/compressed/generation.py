"""One generation that is read from a compressed file; positions count its content (rule G5)."""

from typing import cast

from agent.config.files import InputTable
from agent.inputs.files.compressed.codecs import DamagedError, IncompleteError
from agent.inputs.files.compressed.unpacked import Survey, UnpackedFile
from agent.inputs.files.file import Generation
from agent.inputs.files.paths.suffixes import suffix_of
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from agent.sources.readable import SourceTruncatedError
from logdrive.host.disk import Disk, File, FileStat
from logdrive.model.numbers import check_in, check_of, number_of, position_of
from logdrive.records.chunk import CHUNK_BYTES, TextChunk


class CompressedGeneration(Generation):
    """A generation in a compressed file that was surveyed, which does not change any more."""

    __slots__ = ("_end_bytes", "_packed")

    def __init__(
        self,
        place: FileLocation,
        settings: InputTable,
        *,
        stat: FileStat,
        survey: Survey,
        first_line: FirstLine,
        start: int = 0,
    ) -> None:
        """*survey* is of the file at *place*, which *stat* describes."""
        super().__init__(place, settings, start=start, first_line=first_line)
        self._packed = stat.size, stat.modified_ns
        self._end_bytes = survey.tail
        self.seen = survey.size
        self.prefix = survey.prefix
        self.whole = True  # NULs at its end are part of it
        self.final = True  # a last line without newline is the last one

    @property
    def unpacked(self) -> UnpackedFile | None:
        """The open file; None while closed."""
        return cast("UnpackedFile | None", self.file)

    @property
    def last_number(self) -> int:
        """The number of its end: the survey knows the bytes before it."""
        return number_of(self.seen, self._end_bytes)

    def open_handle(self, disk: Disk) -> None:
        """Open the file under its name; see `Generation`."""
        super().open_handle(disk)
        assert self.file is not None
        # a generation reads, and asks for the metadata: an unpacked file can't do more
        try:
            unpacked = UnpackedFile(self.file, suffix_of(self.place.name))
        except OSError:
            self.close_handle()
            raise
        self.file = cast("File", unpacked)

    def on_stat(self, stat: FileStat, now: float) -> None:
        """Note the file's status. Raises `SourceTruncatedError` if it was changed."""
        if (stat.size, stat.modified_ns) != self._packed:
            raise SourceTruncatedError
        self.modified_ns = stat.modified_ns

    def is_at_rest(self, disk: Disk) -> bool:
        """Return False: it is not followed for long."""
        return False

    def verify_content(self) -> None:
        """Do nothing: `on_stat` has compared what can be compared without unpacking."""

    def _verify_end(self) -> None:
        """Do nothing, as `verify_content` does: the end may be megabytes from the position."""

    def keep_prefix(self) -> None:
        """Do nothing: the survey has made the prefix."""

    def matches_number(self, number: int) -> bool:
        """Return whether a stored *number* can be this generation's (rule D4).

        Raises OSError; of it `SeekingError` where the position has to be looked for.
        """
        position, check = position_of(number), check_in(number)
        if position > self.seen:
            return False
        if not check:
            return True
        before = self._end_bytes if position == self.seen else self._read_before(position)
        return check_of(before) == check

    def read_lines(
        self, now: float, *, limit: int = CHUNK_BYTES, longest: int = 0
    ) -> TextChunk | None:
        """Return the next lines; see `Generation`. Raises `SeekingError` far from the last ones."""
        try:
            return super().read_lines(now, limit=limit, longest=longest)
        except (DamagedError, IncompleteError) as error:
            raise SourceTruncatedError from error

    def number_at(self, position: int) -> int:
        """Return the number of *position*; see `Generation`."""
        try:
            return super().number_at(position)
        except (DamagedError, IncompleteError) as error:
            raise SourceTruncatedError from error

    def _grow_to(self, size: int, now: float) -> None:
        """Do nothing: the survey knows the size."""
