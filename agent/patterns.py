"""Patterns that an operator writes: regular expressions whose search takes linear time.

RE2 searches them. It never goes back in the text, so no pattern and no line can hang the agent: a
search costs at most `PATTERN_INSTRUCTIONS` steps a byte. What needs going back (lookaround and
backreferences) it does not have, and such a pattern is refused when the configuration is loaded.

The library is loaded with the first pattern, so that an agent without any pays no memory for it.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from logdrive.model.units import KIB, MIB

if TYPE_CHECKING:
    import re2

PATTERN_BYTES: Final = 8 * KIB
"""Limit on a pattern's own text, in UTF-8."""

PATTERN_INSTRUCTIONS: Final = 2_000
"""Limit on the steps of a compiled pattern, and so on the steps that a search takes a byte.

A word takes one a character, and `x{100}` a hundred. `\\pL` alone takes some 400.
"""

_MEMORY_BYTES: Final = 1 * MIB
"""Limit on the memory of one compiled pattern, its cache of states included."""

_SHARED: Final = 512
"""Patterns that are kept: each source asks for those of its input, and each takes some 300 KiB."""

_LACKING: Final = {
    "(?=": "lookahead",
    "(?!": "lookahead",
    "(?<": "lookbehind",
    "(?P=": "backreferences",
    "(?>": "atomic groups",
    "(?(": "conditions",
    "(?#": "comments",
    "(?x": "the x flag",
}
_OF_WHOLE_TEXT: Final = re.compile(r"\\[ACzQ]|\(\?\w*-\w*m")
"""What in a pattern means the whole text, where `^` and `$` are to mean a line, or may mean it; and
any byte, that of a line end, too.
"""
_POSSESSIVE: Final = frozenset({"*+", "++", "?+"})


class PatternError(ValueError):
    """A pattern can't be used. The message begins with its `repr`, and says where and why."""


class Pattern:
    """A compiled pattern. It searches bytes that hold UTF-8; others match no `.` and no class."""

    __slots__ = ("_anchor", "_regexp", "_search", "groups", "text")

    def __init__(self, text: str, regexp: "re2._Regexp", anchor: object) -> None:
        self.text = text
        """The pattern as it is written."""

        self.groups: int = regexp.groups
        """The number of its groups."""

        self._regexp = regexp
        self._anchor = anchor
        # the wrapper around this call costs more than the search of a line
        self._search = regexp._regexp.Match

    @property
    def steps(self) -> int:
        """The steps that a search takes a byte, at most."""
        return int(self._regexp.programsize)

    @property
    def group_names(self) -> dict[str, int]:
        """The numbers of the named groups, from 1."""
        return {name.decode(): number for name, number in self._regexp.groupindex.items()}

    def matches(self, data: bytes) -> bool:
        """Say whether the pattern is somewhere in *data*. Costs about 1 µs for a usual line."""
        return bool(self._search(self._anchor, data, 0, len(data))[0][0] >= 0)

    def matches_text(self, text: str) -> bool:
        """Say whether the pattern is somewhere in *text*."""
        return self.matches(text.encode(errors="replace"))

    def find_groups(
        self, data: bytes, begin: int = 0, end: int | None = None
    ) -> list[tuple[int, int]] | None:
        """Return the spans of the first match in *data[begin:end]*, None without one.

        The first span is the whole match, then one a group, (-1, -1) for a group that is not in it.
        `^` is the beginning of *data*, not *begin*; with `(?m)`, that of a line.
        """
        spans: list[tuple[int, int]] = self._search(
            self._anchor, data, begin, len(data) if end is None else end
        )
        return spans if spans[0][0] >= 0 else None


@lru_cache(_SHARED)
def compile_pattern(text: str) -> Pattern:
    """Return *text* as a pattern, the same one for all who ask for it.

    Raises `PatternError`, which a configuration's table lets pass from its `__post_init__`.
    """
    if not text:
        raise PatternError(f"{text!r} is empty, and would match everything")
    if len(text.encode(errors="replace")) > PATTERN_BYTES:
        raise PatternError(f"{text!r} is longer than {PATTERN_BYTES:,} bytes")
    return _compile(text, _options())


@lru_cache(_SHARED)
def compile_line_pattern(text: str) -> Pattern | None:
    """Return *text* as a pattern of which each match is within one line of what is searched.

    A line has such a match if, and only if, `compile_pattern` finds one in the line alone. The
    pattern has no groups. None where that can't be promised.
    """
    if _OF_WHOLE_TEXT.search(text):
        return None
    options = _options()
    options.never_nl = options.never_capture = True
    try:
        return _compile(f"(?m){text}", options)
    except PatternError:  # a step too many
        return None


def check_pattern(text: str) -> None:
    """Raise `PatternError` if *text* can't be used as a pattern."""
    compile_pattern(text)


def _compile(text: str, options: "re2.Options") -> Pattern:
    import re2  # only agents with patterns load it

    try:
        regexp = re2._Regexp(text.encode(errors="replace"), options)
    except re2.error as error:
        raise PatternError(f"{text!r} {_describe(text, _reason(error))}") from error
    if regexp.programsize > PATTERN_INSTRUCTIONS:
        raise PatternError(
            f"{text!r} takes {regexp.programsize:,} steps a byte, and may take at most "
            f"{PATTERN_INSTRUCTIONS:,}: make its repetitions shorter, or several patterns of it"
        )
    return Pattern(text, regexp, re2._Anchor.UNANCHORED)


def _options() -> "re2.Options":
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    return options


def _reason(error: Exception) -> str:
    reason = error.args[0]
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)


def _describe(text: str, reason: str) -> str:
    """Return what is wrong with *text*, given RE2's own *reason*, and at which character."""
    kind, _, fragment = reason.partition(": ")
    if kind == "pattern too large - compile failed":
        return (
            f"needs more than {_MEMORY_BYTES // KIB:,} KiB of memory: make its repetitions shorter"
        )
    if kind == "missing )":
        return "has a ( that is never closed"
    if kind == "missing ]":
        return "has a [ that is never closed"
    if kind.startswith("trailing"):
        return r"ends with a \ that escapes nothing"
    # RE2 names only what it read of it
    if fragment == "(?P" and "(?P=" in text:
        fragment = "(?P="
    where = f"at character {_position(text, kind, fragment) + 1}"
    if kind == "unexpected )":
        return f"has a ) {where} that closes nothing"
    if lacking := _lacking(kind, fragment):
        return f"has {lacking} ({fragment}) {where}, which patterns of linear time (RE2) lack"
    if fragment == r"\Z":
        return rf"has \Z {where}: write \z for the end of the text"
    return f"is wrong {where}: {kind} {fragment}".rstrip()


def _lacking(kind: str, fragment: str) -> str | None:
    """Return the name of what RE2 does not have, None for another mistake."""
    if kind == "invalid escape sequence" and (
        fragment[1:2].isdigit() or fragment in (r"\k", r"\g")
    ):
        return "a backreference"
    if kind == "bad repetition operator" and fragment in _POSSESSIVE:
        return "a possessive repetition"
    return next((name for begin, name in _LACKING.items() if fragment.startswith(begin)), None)


def _position(text: str, kind: str, fragment: str) -> int:
    """Return the index in *text* of the mistake: where its beginning shows the same mistake.

    *fragment* may be in the text before it too, such as in `\\(?=` for `(?=`.
    """
    import re2

    sought = ")" if kind == "unexpected )" else fragment
    begin = text.find(sought)
    while begin >= 0:
        try:
            re2._Regexp(text[: begin + len(sought)].encode(errors="replace"), _options())
        except re2.error as error:
            if _reason(error).partition(": ")[0] == kind:
                return begin
        begin = text.find(sought, begin + 1)
    return max(0, text.find(sought))
