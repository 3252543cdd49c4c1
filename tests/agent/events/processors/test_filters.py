"""Include and exclude: what is kept is what the pattern says of each event alone."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.events.event import Event
from agent.events.processors.text_search import TextSearch
from agent.patterns import compile_pattern
from tests.agent.events.processors.steps import Steps, with_fields


def test_exclude_drops_what_matches_and_counts_it() -> None:
    steps = Steps("processor = [{ exclude = { pattern = '^DEBUG' } }]")

    assert steps.messages("DEBUG a", "INFO DEBUG", "DEBUG b", "x", "y") == ["INFO DEBUG", "x", "y"]
    assert steps.counts() == [("exclude", "", 2, 16)]


def test_include_keeps_only_what_matches_and_counts_the_rest() -> None:
    steps = Steps("processor = [{ include = { pattern = 'ERROR|WARN' } }]")

    assert steps.messages("an ERROR", "x", "", "WARN", "yy") == ["an ERROR", "WARN"]
    assert steps.counts() == [("include", "", 3, 6)]


def test_the_order_of_processors_is_that_of_the_file() -> None:
    steps = Steps(
        "processor = [{ include = { pattern = 'a' } }, { exclude = { pattern = 'b' } }, "
        "{ include = { pattern = 'c' } }]"
    )

    assert steps.messages("a", "abc", "ac", "c", "") == ["ac"]
    assert steps.counts() == [("include", "", 2, 3), ("exclude", "", 1, 4), ("include", "", 1, 2)]


def test_a_field_is_searched_by_its_name_with_dots_and_numbers_as_text() -> None:
    events = [
        with_fields("1", {"http": {"status": 500}}),
        with_fields("2", {"http.status": "502"}),
        with_fields("3", {"http": {"status": 200}}),
        with_fields("4", {"http": "500"}),
        with_fields("5", {}),
    ]
    include = Steps("processor = [{ include = { pattern = '^5..$', field = 'http.status' } }]")
    exclude = Steps("processor = [{ exclude = { pattern = '^5..$', field = 'http.status' } }]")

    assert [event.message for event in include.of_events(*events)] == ["1", "2"]
    assert [event.message for event in exclude.of_events(*events)] == ["3", "4", "5"]


def test_an_event_of_several_lines_is_searched_as_a_whole() -> None:
    steps = Steps("processor = [{ exclude = { pattern = '^at|end$' } }]")
    events = [Event(n, n + 1, text) for n, text in enumerate(["a\nat b", "at x\ny", "end\n", "e"])]

    assert [event.message for event in steps.of_events(*events)] == ["a\nat b", "end\n", "e"]


_PATTERNS = [
    r"^a",
    r"b$",
    r"^$",
    r"a\s*b",
    r"[^a]b",
    r"\bb\b",
    r"\Aa",
    r"b\z",
    r"(?-m)^b",
    r"a|^b$",
    r"(?s)a.b",
    r"\Qa",
    r"a\Cb",
    r"x*",
    r"a\nb",
    "é",
]


@settings(max_examples=150)
@given(
    st.sampled_from(_PATTERNS),
    st.lists(st.text(st.sampled_from("ab \né\r"), max_size=4), max_size=12),
)
@example(r"a\s*b", ["a", "b", "x", "ab"])
@example(r"^$", ["a", "", "b", ""])
@example(r"a\Cb", ["a", "b", "acb", "x"])
def test_many_texts_at_once_match_as_each_alone(pattern: str, texts: list[str]) -> None:
    alone = compile_pattern(pattern)

    assert TextSearch(pattern).matching(texts) == [
        index for index, text in enumerate(texts) if alone.matches_text(text)
    ]
