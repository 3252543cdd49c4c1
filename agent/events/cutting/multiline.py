"""The rules of an [input.multiline] table: which lines are one event."""

from collections.abc import Callable
from typing import Final, NamedTuple

from agent.config.lines import MultilineTable
from agent.events.cutting.text_cutter import NEW, LineRules
from agent.events.cutting.traces import PRESETS, AnyTraceRules
from agent.patterns import compile_pattern

_OPEN: Final = 1
"""The state in which the patterns decide about the next line."""
_GOES_ON: Final = 2
"""The state in which the next line goes on with the event, whatever it is."""

_Search = Callable[[bytes], bool]
"""Returns whether a pattern is found in a line."""


class PatternRules(NamedTuple):
    """Rules by patterns; a `LineRules`. At least one is not None."""

    start: _Search | None
    """Lines that begin an event."""

    continues: _Search | None
    """Lines that go on with the event before them."""

    end: _Search | None
    """Lines that end an event."""

    goes_on: _Search | None
    """Lines whose event goes on in the next one."""

    def take_line(self, state: int, line: bytes) -> tuple[bool, int]:
        """Return whether *line* begins an event, and the state after it; see `LineRules`."""
        starts = self.start is not None and self.start(line)
        begins = state == NEW or (state != _GOES_ON and self._begins(line, starts=starts))
        if self.goes_on is not None and self.goes_on(line):
            return begins, _GOES_ON
        if self.end is not None:
            # with a start, too, lines between an end and the next start are events of their own
            outside = begins and self.start is not None and not starts
            if outside or self.end(line):
                return begins, NEW
        return begins, _OPEN

    def _begins(self, line: bytes, *, starts: bool) -> bool:
        """Return whether *line*, behind a line of an event, begins another one."""
        if starts:
            return True
        if self.continues is not None:
            return not self.continues(line)
        # without any other pattern, only lines that say so go on
        return self.start is None and self.end is None


def make_rules(table: MultilineTable) -> LineRules:
    """Return the rules that *table* asks for."""
    if table.presets:
        rules = [PRESETS[preset] for preset in table.presets]
        return rules[0] if len(rules) == 1 else AnyTraceRules(tuple(rules))
    return PatternRules(
        _search(table.start), _search(table.continue_), _search(table.end), _search(table.goes_on)
    )


def _search(pattern: str | None) -> _Search | None:
    return None if pattern is None else compile_pattern(pattern).matches
