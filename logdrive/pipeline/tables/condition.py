"""Conditions in SQL that people write: whole by themselves before they stand in a query of ours."""

import re
from typing import Final

from deltalake import QueryBuilder
from deltalake.exceptions import DeltaError

_REFUSED: Final = re.compile(r'SQL error: (?:Parser|Tokenizer)Error\("(.*)"\)', re.DOTALL)
_PLACE: Final = re.compile(r"\.? at Line: (\d+), Column: (\d+)$")
_EXPECTED: Final = re.compile(r"Expected: (.*), found: (.*)", re.DOTALL)
_ENDS: Final = ("end of statement", ")")
"""What the parser expects where the condition should have ended."""


def check_condition(condition: str) -> None:
    """Raise ValueError, with the place in what was written, unless *condition* is one expression.

    In parentheses alone `a) or (b` would be taken, which is none by itself; without them what goes
    on behind the condition, as ORDER BY does. Names are not looked at.
    """
    # on a line of its own the parser's columns are those of what was written
    for query in (f"SELECT 1 WHERE\n{condition}\n", f"SELECT 1 WHERE (\n{condition}\n)"):
        try:
            QueryBuilder().execute(query)
        except DeltaError as error:
            refused = _REFUSED.search(str(error))
            if refused is not None:  # else it can be parsed, but lacks its table here
                text = refused[1].replace('\\"', '"').replace("\\\\", "\\")
                raise ValueError(_explain(text, condition)) from error


def _explain(text: str, condition: str) -> str:
    """Return what the parser's *text* says of *condition*."""
    lines = condition.rstrip().split("\n")
    place = _PLACE.search(text)
    line, column = (int(place[1]) - 1, int(place[2])) if place else (0, 0)
    is_behind = not 1 <= line <= len(lines)  # in our part of the query
    if is_behind:
        line, column = len(lines), len(lines[-1]) + 1
    at = f"column {column}" if len(lines) == 1 else f"line {line}, column {column}"

    said = text[: place.start()] if place else text
    expected = _EXPECTED.fullmatch(said)
    if expected is None:
        return f"the condition can't be read: {said}, at {at}"
    if is_behind:
        return f"the condition is incomplete: {expected[1]} is expected at its end, {at}"
    if expected[1] in _ENDS:
        return f"the condition should end before {expected[2]} at {at}"
    return f"the condition can't be read: {expected[1]} is expected at {at}, not {expected[2]}"
