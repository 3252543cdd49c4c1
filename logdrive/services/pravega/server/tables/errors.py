"""Why a table refused something. Nothing was stored then."""

from logdrive.errors import LogdriveError


class TableError(LogdriveError):
    """Root of a table's refusals."""


class NotATableError(TableError):
    """The segment is there, but is no table."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"segment {segment!r} is not a table")


class KeyNotThereError(TableError):
    """A key that is not there was expected at some version."""

    def __init__(self) -> None:
        super().__init__("a key is not there")


class KeyVersionError(TableError):
    """A key is at another version than expected, or is there where it should not be."""

    def __init__(self) -> None:
        super().__init__("a key is at another version")


class TableOffsetError(TableError):
    """The table's log is *length* bytes long, which is not what was expected."""

    def __init__(self, length: int) -> None:
        super().__init__(f"the table's log has {length} bytes")
        self.length = length


class TableNotEmptyError(TableError):
    """The table has keys."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"table {segment!r} has keys")


class FixedKeysError(TableError):
    """A table whose keys have one length does not do that."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"table {segment!r} has keys of one length")


class NoEntryError(TableError):
    """No entry of a table's log begins at that place."""

    def __init__(self, segment: str, offset: int) -> None:
        super().__init__(f"no entry of table {segment!r} begins at {offset}")
