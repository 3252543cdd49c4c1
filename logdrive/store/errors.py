"""Why the store refused something.

What it can't keep at all is `StorageError`; a full disk or too much at once is `TransientError`.
"""

from logdrive.errors import LogdriveError, Mistake, StorageError, TransientError, UnavailableError


class StoreInUseError(UnavailableError):
    """Another process holds the store; its face may be reachable (`endpoint.json`)."""

    def __init__(self, path: str) -> None:
        remedy = (
            "stop it (a receiver, or a pipeline that follows), or read through its network face"
        )
        super().__init__(
            path, [Mistake("store", "", f"another process has this store open: {remedy}")]
        )


class StoreDamagedError(StorageError):
    """Bytes that once were durable are not what was written.

    Names the file and the offset in it; nothing is cut.
    """

    def __init__(self, path: str, offset: int, reason: str) -> None:
        super().__init__(f"{path} is damaged at offset {offset}: {reason}")
        self.path = path
        self.offset = offset


class NoSuchSegmentError(LogdriveError):
    """There is no segment of that name."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"no segment {segment!r}")
        self.segment = segment


class SegmentSealedError(LogdriveError):
    """The segment takes nothing more."""

    def __init__(self, segment: str) -> None:
        super().__init__(f"segment {segment!r} is sealed")
        self.segment = segment


class SegmentTruncatedError(LogdriveError):
    """The segment begins at *start* now: what lies before is gone, and it can't be cut to what lies
    outside of it.
    """

    def __init__(self, segment: str, start: int) -> None:
        super().__init__(f"segment {segment!r} begins at {start}")
        self.segment = segment
        self.start = start


class NumberMismatchError(LogdriveError):
    """The writer's number submitted last is *current*, which is not the one expected, or not below
    the new one. Nothing was stored.
    """

    def __init__(self, current: int) -> None:
        super().__init__(f"the writer's number is {current}")
        self.current = current


class OffsetMismatchError(LogdriveError):
    """The segment's length, with what is submitted, is *current*, not the one expected.

    Nothing was stored.
    """

    def __init__(self, current: int) -> None:
        super().__init__(f"the segment's length is {current}")
        self.current = current


class OverloadedError(TransientError):
    """More is pending than `StoreLimits.pending` allows."""
