"""The view: a segment's durable bytes as numbered and dated records.

It is a function of the segment's events and of the times of their appends, and so the same for
every writer, and after every start. Record *n* is the event that *n* events precede. Its timestamp
is that of the record before it, or if later its own: the stored one, or that of its append.
"""

from logdrive.services.numbering.appends import EncodedAppend, behind
from logdrive.services.numbering.heads import decode_command
from logdrive.services.numbering.positions import START, Position, Positions
from logdrive.services.numbering.walk import NO_LIMIT, walk_stored
from logdrive.store.engine import Store
from logdrive.wire.s2.records import Fence, StreamPosition, Trim


class View:
    """The view of one segment, up to *end*; what is appended behind that is to be added.

    *rows* are its sparse index, *token* is the fencing token, and records before *trim_point* are
    deleted, or are to be.
    """

    def __init__(self, store: Store, segment: str, end: Position = START) -> None:
        self._store = store
        self._segment = segment
        self.rows = Positions((end,))
        self.end = end
        self.token = ""
        self.trim_point = 0

    @property
    def tail(self) -> StreamPosition:
        """The number of the next record, and the time of the last one."""
        return StreamPosition(self.end.seq_num, self.end.timestamp)

    def add_own(self, append: EncodedAppend) -> Position:
        """Add an append that became durable at `end`; return its first record's place and time."""
        before = self.end
        if self.rows.is_due(before):
            self.rows.add(before)
        for at, command in append.commands:
            self._apply(before.seq_num + at, command)
        self.end = behind(before, append)
        return before._replace(timestamp=max(before.timestamp, append.first))

    def add_stored(self, until: int) -> bool:
        """Add a piece of what is stored from `end` up to *until*; return whether there is more.

        The beginning of an event is no more. Raises `StorageError`, `SegmentTruncatedError`,
        `NotEventsError`.
        """
        before = self.end
        self.end = walk_stored(
            self._store,
            self._segment,
            before,
            until,
            rows=self.rows,
            on_command=self._on_command,
        )
        return before != self.end and self.end.offset < until

    def position_of(self, seq_num: int) -> Position:
        """Return where the record *seq_num* begins, or the first one if that is later.

        At most `end`. Raises as `add_stored` does.
        """
        if seq_num >= self.end.seq_num:
            return self.end
        return self._seek(self.rows.before_seq_num(seq_num), to_seq_num=seq_num)

    def position_from(self, timestamp: int) -> Position:
        """Return where the first record of *timestamp* or later begins; `end` if there is none."""
        return self._seek(self.rows.before_timestamp(timestamp), to_timestamp=timestamp)

    def position_before(self, offset: int) -> Position:
        """Return the position of *offset*, or of the last record that begins before it."""
        at, before = self.rows.before_offset(offset), None
        while at != before:
            before = at
            at = walk_stored(self._store, self._segment, at, offset)
        return at

    def _seek(
        self, at: Position, *, to_seq_num: int = NO_LIMIT, to_timestamp: int = NO_LIMIT
    ) -> Position:
        before = None
        while at != before:
            before = at
            at = walk_stored(
                self._store,
                self._segment,
                at,
                self.end.offset,
                to_seq_num=to_seq_num,
                to_timestamp=to_timestamp,
            )
        return at

    def _on_command(self, seq_num: int, fields: bytes) -> None:
        command = decode_command(fields)
        if command is not None:
            self._apply(seq_num, command)

    def _apply(self, seq_num: int, command: Fence | Trim) -> None:
        if isinstance(command, Fence):
            self.token = command.token
        else:
            self.trim_point = max(self.trim_point, min(command.seq_num, seq_num + 1))
