"""Presets of multiline: the lines of stack traces join the line before them.

Each language has kinds of lines, told by their beginning, and a table: after which kind of line
which other kinds go on with the event. In all of them an indented line goes on, and a line of no
kind is a log line, which begins an event. A trace joins the log line before it, as loggers write
both together; the trace of an uncaught exception, which no logger wrote, begins an event where the
language writes it otherwise (Python does not).
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from agent.events.cutting.text_cutter import NEW

_LOOKED_AT: Final = 1024
"""Bytes of a line that its kind is told by: expressions take more time a byte in longer ones."""

_OTHER: Final = "other"
"""The kind of lines that no expression describes."""

# States: what kind of line was last. `NEW` is 0.
_LOG: Final = 1
"""A log line, and what was indented behind it."""
_TRACE: Final = 2
"""A line of a trace."""
_RAISED: Final = 3
"""The line that ends a trace of Python: the exception."""
_GAP: Final = 4
"""An empty line behind a trace, which may be one within it."""
_CHAIN: Final = 5
"""A line that says that one more trace follows."""
_QUOTED: Final = 6
"""A line of source behind an empty line, quoted by the exception."""


class TraceRules(NamedTuple):
    """The rules of one language; a `LineRules`."""

    kinds: re.Pattern[bytes]
    """A group for each kind of line, by name; it matches the beginning of a line."""

    goes_on: Mapping[tuple[int, str], int]
    """The next state, by state and kind, where a line goes on with the event."""

    begins: Mapping[str, int]
    """The state after a line that begins an event, by kind, if it is not `_LOG`."""

    def take_line(self, state: int, line: bytes) -> tuple[bool, int]:
        """Return whether *line* begins an event, and the state after it; see `LineRules`."""
        found = self.kinds.match(line, 0, _LOOKED_AT)
        kind = _OTHER if found is None else found.lastgroup or _OTHER
        if state != NEW:
            after = self.goes_on.get((state, kind))
            if after is not None:
                return False, after
        return True, self.begins.get(kind, _LOG)


class AnyTraceRules(NamedTuple):
    """The rules of several languages: a line goes on with the event if it does so in one of them; a
    `LineRules`.
    """

    languages: tuple[TraceRules, ...]
    """The rules of each."""

    def take_line(self, state: int, line: bytes) -> tuple[bool, int]:
        """Return whether *line* begins an event, and the state after it; see `LineRules`.

        A state has those of all languages, three bits each.
        """
        begins, after = True, 0
        for place, rules in enumerate(self.languages):
            begins_here, after_here = rules.take_line(state >> place * 3 & 7, line)
            begins &= begins_here
            after |= after_here << place * 3
        return begins, after


def _rules(
    kinds: Mapping[str, bytes],
    goes_on: Mapping[int, Mapping[str, int]],
    begins: Mapping[str, int],
) -> TraceRules:
    """Return the rules with these tables; the first of *kinds* that matches counts."""
    groups = (b"(?P<%b>%b)" % (name.encode(), expression) for name, expression in kinds.items())
    moves = {
        (state, kind): after for state, kinds_ in goes_on.items() for kind, after in kinds_.items()
    }
    return TraceRules(re.compile(b"|".join(groups)), moves, begins)


JAVA: Final = _rules(
    {
        # frames, "... 12 more", suppressed exceptions, further lines of a message
        "indented": rb"[ \t]",
        "cause": rb"(?:Caused by|Wrapped by|Suppressed): ",
        "uncaught": rb'Exception in thread "',
        "thrown": rb"(?:[\w$]+\.)+[\w$]*(?:Exception|Error|Throwable|Failure|ThreadDeath)[\w$]*"
        rb"(?::|\s*$)",
    },
    {
        _LOG: {"indented": _LOG, "thrown": _TRACE, "cause": _TRACE},
        _TRACE: {"indented": _TRACE, "cause": _TRACE},
    },
    {"uncaught": _TRACE, "thrown": _TRACE},
)

PYTHON: Final = _rules(
    {
        "traceback": rb"Traceback \(most recent call last\):",
        # a syntax error has no line before it
        "frame": rb' +File "',
        "blank": rb"\s*$",
        # source lines, marks below them, groups of exceptions
        "indented": rb"[ \t]",
        "chain": rb"(?:During handling of the above|The above) exception(?: was|,) ",
    },
    {
        _LOG: {"traceback": _TRACE, "frame": _TRACE, "indented": _LOG},
        _TRACE: {"frame": _TRACE, "indented": _TRACE, "blank": _TRACE, _OTHER: _RAISED},
        _RAISED: {"indented": _RAISED, "frame": _RAISED, "blank": _GAP, "chain": _CHAIN},
        _GAP: {"blank": _GAP, "chain": _CHAIN},
        _CHAIN: {"blank": _CHAIN, "traceback": _TRACE, "indented": _RAISED},
    },
    {"traceback": _TRACE, "frame": _TRACE, "chain": _CHAIN},
)

GO: Final = _rules(
    {
        "panic": rb"(?:panic|fatal error|runtime|SIG[A-Z]+): |unexpected fault address ",
        "signal": rb"\[signal |\[recovered|PC=0x",
        "goroutine": rb"goroutine \d.*\[.*\]:\s*$|runtime stack:\s*$",
        "blank": rb"\s*$",
        "indented": rb"[ \t]",
        "exit": rb"exit status \d+\s*$",
        # a function with its arguments, or as loggers write it, without them
        "function": rb"created by \S|panic\(|(?:[\w.%~-]+/)*[\w%-]+\.[\w.()*\[\]-]*"
        rb"(?:\(.*\))?\s*$",
        "elided": rb"\.\.\.(?:additional|\d+) frames elided",
        "register": rb"[a-z]\w{1,6} +0x[0-9a-f]+\s*$",
    },
    {
        _LOG: {"indented": _LOG, "goroutine": _TRACE, "function": _TRACE},
        # behind the line of the panic
        _RAISED: {
            "panic": _RAISED,
            "signal": _RAISED,
            "indented": _RAISED,
            "blank": _RAISED,
            "goroutine": _TRACE,
        },
        _TRACE: {
            "function": _TRACE,
            "indented": _TRACE,
            "elided": _TRACE,
            "goroutine": _TRACE,
            "register": _TRACE,
            "blank": _GAP,
            "exit": _LOG,
        },
        _GAP: {"blank": _GAP, "goroutine": _TRACE, "register": _TRACE, "exit": _LOG},
    },
    {"panic": _RAISED, "goroutine": _TRACE},
)

RUBY: Final = _rules(
    {
        "traceback": rb"Traceback \(most recent call last\):",
        "blank": rb"\s*$",
        "indented": rb"[ \t]",
        # raised while another one was handled, which is told behind it
        "wrapped": rb"[^\s:]+:\d+:in [`']rescue in .*': ",
        "raised": rb"[^\s:]+:\d+:in [`'].*': ",
        "frame": rb"[^\s:]+:\d+:in [`']",
        # marks below a quoted line that is not indented
        "hint": rb"Did you mean\?|\^+\s*$",
        # as a logger writes the message of an exception
        "logged": rb".*\((?:\w+::)*\w*(?:Error|Exception)\)\s*$",
    },
    {
        _LOG: {"indented": _LOG, "frame": _TRACE},
        _TRACE: {"indented": _TRACE, "frame": _TRACE, "hint": _TRACE, "blank": _LOG},
        # behind the line of the exception, which may quote a line of source between empty ones
        _RAISED: {"indented": _TRACE, "frame": _TRACE, "blank": _GAP, "hint": _TRACE},
        _GAP: {"blank": _GAP, "indented": _TRACE, _OTHER: _QUOTED, "hint": _TRACE},
        _QUOTED: {"indented": _TRACE, "hint": _TRACE},
        # the trace that the newest call ends, and traces with one more behind them
        _CHAIN: {"indented": _CHAIN, "blank": _CHAIN, "raised": _RAISED, "wrapped": _CHAIN},
    },
    {"traceback": _CHAIN, "raised": _RAISED, "logged": _RAISED, "wrapped": _CHAIN, "frame": _TRACE},
)

DOTNET: Final = _rules(
    {
        "blank": rb"\s*$",
        # frames, inner exceptions, and what the console's logger writes behind a category
        "indented": rb"[ \t]",
        "mark": rb"--->|--- End of |<---",
        "uncaught": rb"Unhandled [Ee]xception|Process terminated\.",
        "thrown": rb"(?:[\w`]+\.)+[\w`+]*(?:Exception|Error)[\w`+\[\]]*(?::| \(|\s*$)",
    },
    {
        _LOG: {"indented": _LOG, "thrown": _TRACE, "mark": _TRACE},
        _TRACE: {"indented": _TRACE, "mark": _TRACE, "blank": _GAP},
        _GAP: {"indented": _TRACE, "mark": _TRACE, "blank": _GAP},
    },
    {"uncaught": _TRACE, "thrown": _TRACE},
)

PRESETS: Final[Mapping[str, TraceRules]] = {
    "java": JAVA,
    "python": PYTHON,
    "go": GO,
    "ruby": RUBY,
    "dotnet": DOTNET,
}
"""The presets by their names in the configuration."""
