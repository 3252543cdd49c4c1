"""Conditions of users: one whole expression, or refused with the place in what they wrote."""

import pytest

from logdrive.pipeline.tables.condition import check_condition


@pytest.mark.parametrize(
    "condition",
    [
        "message = 'a'",
        "message = 'a) or (b' AND (start < 5 OR \"end\" IS NULL)",
        "message = 'a' -- as of ticket 17",
        "message = 'it''s'\n  AND path LIKE '%.log'",
        "start IN (SELECT start FROM rows WHERE host = 'a')",
        "nothing = 'has this name'",
    ],
)
def test_a_whole_condition_is_taken(condition: str) -> None:
    check_condition(condition)


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("path like '%java.log') or (1=1", "should end before ) at column 22"),
        ("message = 'a' order by 1", "should end before order at column 15"),
        ("message = 'a' union select 1", "should end before union at column 15"),
        ("1=1; drop table rows", "should end before ; at column 4"),
        ("a b", "should end before b at column 3"),
        ("message = ", "incomplete: an expression is expected at its end, column 10"),
        ("", "incomplete: an expression is expected at its end, column 1"),
        ("start < 5\nAND (path = 'a'", "incomplete: ) is expected at its end, line 2, column 16"),
        ("start between 1", "incomplete: AND is expected at its end, column 16"),
        ("message = ] 1", "an expression is expected at column 11, not ]"),
        ("message = 'a", "Unterminated string literal, at column 11"),
        ('message = "a', "Expected close delimiter '\"' before EOF, at column 11"),
        ("message = 'a' /* b", "EOF while in a multi-line comment, at column 19"),
    ],
)
def test_what_is_no_whole_condition_is_refused_with_its_place(condition: str, said: str) -> None:
    with pytest.raises(ValueError, match=r"^the condition ") as refused:
        check_condition(condition)
    assert str(refused.value).endswith(said)
