"""An operator's patterns: mistakes name their place, and no pattern hangs the agent."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.patterns import (
    PATTERN_BYTES,
    PatternError,
    check_pattern,
    compile_line_pattern,
    compile_pattern,
)
from logdrive.model.units import KIB


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ab(?=c)", "has lookahead ((?=) at character 3"),
        (r"\(?=a(?=b)", "has lookahead ((?=) at character 6"),
        ("ä(?!ö)", "has lookahead ((?!) at character 2"),
        ("(?<=x)y", "has lookbehind ((?<=) at character 1"),
        (r"(a)\1", r"has a backreference (\1) at character 4"),
        ("(?P<n>a)(?P=n)", "has backreferences ((?P=) at character 9"),
        ("(?>x)", "has atomic groups ((?>) at character 1"),
        ("a++", "has a possessive repetition (++) at character 2"),
    ],
)
def test_what_re2_lacks_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        check_pattern(text)

    assert str(caught.value) == f"{text!r} {words}, which patterns of linear time (RE2) lack"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty, and would match everything"),
        ("x(abc", "has a ( that is never closed"),
        ("x[abc", "has a [ that is never closed"),
        ("abc)d", "has a ) at character 4 that closes nothing"),
        ("x[z-a]", "is wrong at character 3: invalid character class range z-a"),
        ("*a", "is wrong at character 1: no argument for repetition operator *"),
        ("a{5000}", "is wrong at character 2: invalid repetition size {5000}"),
        ("a\\", "ends with a \\ that escapes nothing"),
        (r"a\Z", r"has \Z at character 2: write \z for the end of the text"),
    ],
)
def test_a_mistake_in_a_pattern_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(PatternError) as caught:
        check_pattern(text)

    assert str(caught.value) == f"{text!r} {words}"


@pytest.mark.parametrize(
    "text",
    [r"\pL{100}", ".{1000}", "a" * (PATTERN_BYTES + 1), "((a{10}){10}){10}" * 2],
    ids=["memory", "steps", "bytes", "repetitions of repetitions"],
)
def test_a_pattern_that_costs_too_much_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        check_pattern(text)


@pytest.mark.parametrize(
    "text",
    [
        "(x+x+)+y",
        "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(a|aa)+$b",
        "(.*)*(.*)*c",
        "(a?){30}a{30}b",
        "(a|b|ab)*bc",
        "(x|y)*x(x|y){200}c",
    ],
)
def test_no_pattern_takes_more_than_linear_time(text: str) -> None:
    pattern = compile_pattern(text)
    data = b"xa" * (8 * KIB)

    begun = time.process_time()
    pattern.matches(data)
    # going back would take longer than any test runs; a step takes some nanoseconds
    assert time.process_time() - begun < 30


@given(st.text(max_size=60))
@settings(max_examples=100)
def test_any_text_is_a_pattern_or_is_refused_as_one(text: str) -> None:
    try:
        pattern = compile_pattern(text)
    except PatternError as error:
        refused = error
    else:
        assert pattern.groups >= 0
        return

    assert str(refused).startswith(repr(text))


def test_groups_have_numbers_names_and_spans() -> None:
    pattern = compile_pattern(r"(?P<key>\w+)=(x)?")

    assert pattern.groups == 2
    assert pattern.group_names == {"key": 1}
    assert pattern.find_groups(b"a bc=") == [(2, 5), (2, 4), (-1, -1)]
    assert pattern.find_groups(b"a bc=", 3) == [(3, 5), (3, 4), (-1, -1)]
    assert pattern.find_groups(b"a bc=", 0, 4) is None


def test_a_text_that_utf8_does_not_have_is_searched_all_the_same() -> None:
    pattern = compile_pattern("end")

    assert pattern.matches_text("\ud800 end")
    assert pattern.matches(b"\xff\xfe end")


def test_sources_share_compiled_patterns() -> None:
    assert compile_pattern("a+b") is compile_pattern("a+b")
    assert compile_line_pattern("a+b") is compile_line_pattern("a+b")


def test_the_library_is_loaded_only_with_a_pattern() -> None:
    program = (
        "import sys, agent.app, agent.config.config, agent.patterns; print('re2' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert out.stdout == b"False\n"
