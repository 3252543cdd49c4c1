"""What an input's lines are, and which of them are one event: keys of every input's table."""

from typing import Annotated, Literal

import msgspec

from agent.config.encodings import EAST_ASIAN, UNIT_BYTES, UTF8, WITHOUT_MARK, canonical_encoding
from agent.patterns import check_pattern
from logdrive.config.bounds import Positive, checked
from logdrive.model.units import KIB

LONGEST_EVENT_BYTES = 512 * KIB
"""Limit on the limits of an event's bytes: what is read at once must hold an event."""

LINE_END_BYTES = 64
"""Limit on a line end, encoded."""


TracePreset = Literal["java", "python", "go", "ruby", "dotnet"]
"""A language whose stack traces are known."""


Pattern = Annotated[str, checked(check_pattern)]
"""A pattern that is looked for in lines."""


class MultilineTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [input.multiline] table: which lines are one event."""

    preset: TracePreset | tuple[TracePreset, ...] | None = None
    """Lines of the stack traces of a language, or of several, join the line before them."""

    start: Pattern | None = None
    """Lines that begin an event; others go on with the one before. This and the other patterns are
    looked for anywhere in a line.
    """

    continue_: Pattern | None = msgspec.field(default=None, name="continue")
    """Lines that go on with the event before; others begin one."""

    end: Pattern | None = None
    """Lines that end an event."""

    goes_on: Pattern | None = None
    """Lines with which an event does not end, so that the next line belongs to it, too."""

    max_lines: Annotated[int, msgspec.Meta(ge=2, le=100_000)] = 500
    """Lines of an event; those that follow are another."""

    max_bytes: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_EVENT_BYTES)] = 256 * KIB
    """Bytes of an event of several lines; the line that would exceed them begins another."""

    max_seconds: Positive = 5.0
    """Seconds without growth after which a last event is sent, whether it goes on or not."""

    def __post_init__(self) -> None:
        """Refuse a table without a rule, and rules that contradict each other."""
        every = (self.start, self.continue_, self.end, self.goes_on)
        patterns = [pattern for pattern in every if pattern is not None]
        for pattern in patterns:
            check_pattern(pattern)
        if len(set(self.presets)) < len(self.presets):
            raise ValueError("preset: each can be there only once")
        if not self.presets and not patterns:
            raise ValueError("one of preset, start, continue, end and goes_on is needed")
        if self.presets and patterns:
            raise ValueError(
                "a preset has its own patterns: leave out start, continue, end, goes_on"
            )
        if self.end is not None and self.continue_ is not None:
            raise ValueError(
                "end and continue contradict each other on a line that matches neither: with end, "
                "lines go on until one matches; give start and end, or continue alone"
            )
        if self.end is not None and self.goes_on is not None:
            raise ValueError(
                "end and goes_on contradict each other on a line that matches neither: give one"
            )

    @property
    def presets(self) -> tuple[TracePreset, ...]:
        """The languages of `preset`."""
        if self.preset is None:
            return ()
        return self.preset if isinstance(self.preset, tuple) else (self.preset,)


class LinesTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Keys of each table of an input: how its bytes are cut into events. By default into lines."""

    encoding: Annotated[str, checked(canonical_encoding)] = UTF8
    """The encoding of the bytes, by one of Python's names for it."""

    line_end: Annotated[str, msgspec.Meta(min_length=1)] = "\n"
    """What ends a line."""

    longest_event_bytes: Annotated[int, msgspec.Meta(ge=1, le=LONGEST_EVENT_BYTES)] | None = None
    """Bytes of an event, without its line end, that are sent; without it, all."""

    multiline: MultilineTable | None = None
    """Which lines are one event; without it, each is."""

    def __post_init__(self) -> None:
        """Refuse encodings that files don't have, and line ends that can't be told in them."""
        try:
            encoding = canonical_encoding(self.encoding)
        except ValueError as error:
            raise ValueError(f"encoding: {error}") from error
        problem = _line_end_problem(self.line_end, encoding)
        if problem:
            raise ValueError(f"line_end: {problem}")

    @property
    def canonical_encoding(self) -> str:
        """Python's own name of the encoding."""
        return canonical_encoding(self.encoding)

    @property
    def line_end_bytes(self) -> bytes:
        """The bytes that end a line, where no byte order mark says otherwise."""
        encoding = self.canonical_encoding
        return self.line_end.encode(WITHOUT_MARK.get(encoding, encoding))

    @property
    def container(self) -> Literal["cri", "docker", "auto"] | None:
        """Which container runtime writes the files; "auto": their first bytes say it."""
        return None

    @property
    def has_plain_text(self) -> bool:
        """Whether lines are events, whole, end with LF, and are in UTF-8."""
        return (
            self.multiline is None
            and self.longest_event_bytes is None
            and self.line_end == "\n"
            and self.canonical_encoding == UTF8
        )

    @property
    def has_plain_lines(self) -> bool:
        """Whether none of its bytes need be looked at to cut them."""
        return self.has_plain_text and self.container is None


def _line_end_problem(line_end: str, encoding: str) -> str:
    """Return why *line_end* is no line end of files in *encoding*; "" if it is one."""
    if line_end == "\r\n":
        return 'leave it out: with the default, lines may end with "\\n" or with "\\r\\n"'
    if not line_end.isascii() and encoding != UTF8:
        return f"it must be ASCII where the encoding is {encoding}"
    if len(line_end.encode()) * UNIT_BYTES.get(encoding, 1) > LINE_END_BYTES:
        return f"it is longer than {LINE_END_BYTES} bytes"
    if encoding in EAST_ASIAN and (line_end[0].isdigit() or line_end[0] >= "@"):
        return (
            f"in {encoding}, {line_end[0]!r} may be a byte of another character: let it begin with "
            "a control character, a blank, or one of !\"#$%&'()*+,-./:;<=>?"
        )
    return ""
