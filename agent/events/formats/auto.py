"""Recognises the form of a file's lines from its first ones.

Lines that begin within the first `FIRST_BYTES` are each read as what they look like. From there on
all lines are read as the form that most of those had. So what is made of a line depends on nothing
but the line, its position, and the bytes of its file before that: it is the same after a restart,
and when the line is read again. Where the first bytes are gone, as those of a pipe, each line is
read as what it looks like.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from agent.config.formats import FormatName, FormatTable
from agent.events.event import Event, FormatCounts
from agent.events.formats.line_format import LineFormat, LineReader
from logdrive.model.records import PARTIAL
from logdrive.model.units import KIB

FIRST_BYTES: Final = 8 * KIB
"""Bytes at the beginning of a file whose lines decide on its form."""

_SHARE: Final = 2 / 3
"""Share of these lines that must have the form."""
_FEWEST_PAIRS: Final = 2


class AutoFormat:
    """Lines of the form that the first lines of their file have."""

    def __init__(
        self,
        table: FormatTable,
        readers: Mapping[FormatName, LineReader],
        first_events: Callable[[], Sequence[Event] | None],
        on_recognized: Callable[[str], None],
    ) -> None:
        """Choose among *readers*; of two that read a line the first one counts.

        *first_events* returns the events in the first `FIRST_BYTES` of the file, or None if these
        can't be read. *on_recognized* is called with the name of a form once it is found.
        """
        self._table = table
        self._readers = readers
        self._first_events = first_events
        self._on_recognized = on_recognized
        # for lines that are looked at one by one: one without a form is no bad line
        self._single = LineFormat(replace(table, bad_lines="keep"), self._read_any)
        self._decided: LineFormat | None = None  # None: not decided, or no form
        self._is_decided = False
        self.name: str = "auto"  # the form that most first lines have, as far as they are there

    @property
    def counts(self) -> FormatCounts:
        """Lines that were read, and those of another form."""
        single, decided = self._single.counts, self._decided
        if decided is None:
            return single
        return FormatCounts(
            single.parsed + decided.counts.parsed, single.failed + decided.counts.failed
        )

    def parse_events(self, events: list[Event]) -> None:
        """Set the fields of *events*."""
        behind = [event for event in events if event.start >= FIRST_BYTES]
        if self.name == "auto" or (behind and not self._is_decided):
            self._look_at_first_events(final=bool(behind))
        single = [event for event in events if not self._is_decided or event.start < FIRST_BYTES]
        if single:
            self._single.parse_events(single)
        if behind and self._decided is not None:
            self._decided.parse_events(behind)

    def _look_at_first_events(self, *, final: bool) -> None:
        """Find the form of the first lines; with *final* all of them are there."""
        first = None if self._is_decided else self._first_events()
        if first is None:
            return
        said = [event for event in first if event.message and PARTIAL not in event.flags]
        found = Counter(name for event in said if (name := self._recognize(event)[0]))
        name, lines = found.most_common(1)[0] if found else (None, 0)
        if name is not None and lines < _SHARE * len(said):
            name = None
        if name is not None and name != self.name:
            self.name = name
            self._on_recognized(name)
        if final:
            self._is_decided = True
            if name is not None:
                self._decided = LineFormat(self._table, self._readers[name], name)

    def _recognize(self, event: Event) -> tuple[FormatName | None, dict[str, Any] | None]:
        for name, read in self._readers.items():
            fields = read(event)
            # a word with a sign in it is no logfmt yet, and an empty object says nothing
            if fields and not (name == "logfmt" and len(fields) < _FEWEST_PAIRS):
                return name, fields
        return None, None

    def _read_any(self, event: Event) -> dict[str, Any] | None:
        return self._recognize(event)[1]
