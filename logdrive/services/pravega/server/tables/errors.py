"""Errors of tables: the request was refused, and nothing was stored."""

from logdrive.errors import LogdriveError


class TableError(LogdriveError):
    """Root of the errors of tables."""


class NotATableError(TableError):
    """The segment exists, but is not a table."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"segment {segment!r} is not a table")


class KeyNotThereError(TableError):
    """A key does not exist, and a version of it was expected."""

    def __init__(self) -> None:
        super().__init__("a key does not exist")


class KeyVersionError(TableError):
    """A key has another version than expected, or exists where it was expected not to."""

    def __init__(self) -> None:
        super().__init__("a key has another version")


class TableOffsetError(TableError):
    """The table's log has another length than expected: *length* bytes."""

    def __init__(self, length: int) -> None:
        super().__init__(f"the table's log has {length} bytes")
        self.length = length


class TableNotEmptyError(TableError):
    """The table has keys."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"table {segment!r} has keys")


class FixedKeysError(TableError):
    """The request is not for tables whose keys all have one length."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"table {segment!r} has keys of one length")


class NoEntryError(TableError):
    """No entry of the table's log begins at that offset."""

    def __init__(self, segment: str, offset: int) -> None:
        super().__init__(f"no entry of table {segment!r} begins at {offset}")
