"""Lines that are one event: patterns, limits, and the presets for stack traces."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.events.cutting.make import make_cutter
from tests.agent.events.cutting.world import assert_tiles, read_events, table

TRACES = Path(__file__).parent / "traces"
LANGUAGES = ("java", "python", "go", "ruby", "dotnet")


def events_of(language: str) -> list[bytes]:
    """Return real events of programs in *language*, as their loggers and runtimes write them."""
    return (TRACES / f"{language}.txt").read_bytes().split(b"=====\n")


def cut(
    stream: bytes, keys: Mapping[str, Any], sizes: Sequence[int] = (), limit: int = 1 << 19
) -> list[str]:
    """Return the messages that *stream* is cut into, with these keys of [input.multiline]."""
    events = read_events(make_cutter(table(multiline=keys)), stream, sizes, limit)
    assert_tiles(events, stream)
    return [event.message for event in events]


def letters(pieces: str, **keys: str | int) -> str:
    """Return lines, a letter each, as the events that they are cut into, parted by blanks."""
    stream = "".join(f"{letter}\n" for letter in pieces).encode()
    return " ".join(message.replace("\n", "") for message in cut(stream, keys))


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_trace_is_one_event_with_the_line_that_it_belongs_to(language: str) -> None:
    events = events_of(language)
    assert len(events) > 3
    assert cut(b"".join(events), {"preset": language}) == [
        event.decode().removesuffix("\n") for event in events
    ]


@given(data=st.data(), sizes=st.lists(st.integers(1, 400)))
def test_traces_of_several_languages_are_events_each_in_one_file(
    data: st.DataObject, sizes: list[int]
) -> None:
    presets = data.draw(st.lists(st.sampled_from(LANGUAGES), min_size=1, unique=True))
    every = [one for language in presets for one in events_of(language)]
    events = data.draw(st.lists(st.sampled_from(every), max_size=8))
    # a log line before each, as where an application's own events stand between
    stream = b"".join(b"2026-01-02 INFO between\n" + event for event in events)
    found = cut(stream, {"preset": presets}, sizes)
    assert "".join(message + "\n" for message in found).encode() == stream
    for event in events:
        assert event.count(b"\n") == 1 or any(
            event.decode().removesuffix("\n") in message for message in found
        )
    assert sum("INFO between" in message for message in found) == len(events)


@given(language=st.sampled_from(LANGUAGES), sizes=st.lists(st.integers(1, 400)), data=st.data())
def test_any_split_of_a_stream_of_traces_gives_the_same_events(
    language: str, sizes: list[int], data: st.DataObject
) -> None:
    events = data.draw(st.lists(st.sampled_from(events_of(language)), max_size=8))
    stream = b"".join(events)
    limits = data.draw(
        st.sampled_from([{}, {"max_lines": 3}, {"max_bytes": 100}, {"max_bytes": 900}])
    )
    keys = {"preset": language, **limits}
    assert cut(stream, keys, sizes) == cut(stream, keys)


@pytest.mark.parametrize(
    ("keys", "lines", "events"),
    [
        ({"start": "S"}, "xySxxSSx", "xy Sxx S Sx"),
        ({"continue": "c"}, "cxccxx", "c xcc x x"),
        ({"end": "E"}, "xxExEEx", "xxE xE E x"),
        ({"start": "S", "continue": "c"}, "cScxccS", "c Sc xcc S"),
        ({"start": "S", "end": "E"}, "xxSxxExESSxE", "x x SxxE x E S SxE"),
        ({"goes_on": "g"}, "xggxx", "x ggx x"),
        ({"start": "S", "goes_on": "g"}, "SgSxSx", "SgSx Sx"),
        ({"continue": "c", "goes_on": "g"}, "xgxcx", "x gxc x"),
    ],
)
def test_patterns_say_which_lines_are_one_event(
    keys: dict[str, str], lines: str, events: str
) -> None:
    assert letters(lines, **keys) == events


@given(
    lines=st.text("SEcgx", max_size=30),
    sizes=st.lists(st.integers(1, 5), max_size=40),
    keys=st.sampled_from(
        [{"start": "S"}, {"continue": "c"}, {"end": "E"}, {"start": "S", "end": "E"}]
    ),
    limits=st.sampled_from([{}, {"max_lines": 3}, {"max_bytes": 6}]),
)
def test_any_split_of_a_stream_gives_the_same_events(
    lines: str, sizes: list[int], keys: dict[str, str], limits: dict[str, int]
) -> None:
    stream = "".join(f"{letter}\n" for letter in lines).encode()
    assert cut(stream, {**keys, **limits}, sizes) == cut(stream, {**keys, **limits})


def test_an_event_over_a_limit_is_several() -> None:
    assert letters("Sxxxxxx", start="S", max_lines=3) == "Sxx xxx x"
    assert letters("Sxxxxxx", start="S", max_bytes=5) == "Sx xx xx x"
    # one line is whole however long
    assert cut(b"S" * 20 + b"\nx\n", {"start": "S", "max_bytes": 5}) == ["S" * 20, "x"]


def test_an_event_as_long_as_what_is_read_at_once_is_whole() -> None:
    stream = b"S" + b"x" * 29 + b"\n" + b"y" * 9 + b"\n" + b"S\n"
    keys = {"start": "S", "max_bytes": 41}
    assert cut(stream, keys, limit=44) == ["S" + "x" * 29 + "\n" + "y" * 9, "S"]


def test_patterns_see_the_text_of_other_encodings_without_the_line_end() -> None:
    keys = {"encoding": "utf-16-le", "multiline": {"start": "^é$"}}
    stream = "é\r\nx\r\né\n".encode("utf-16-le")
    events = read_events(make_cutter(table(**keys)), stream, [])
    assert [event.message for event in events] == ["é\r\nx", "é"]
    assert_tiles(events, stream)


@pytest.mark.parametrize("language", LANGUAGES)
def test_presets_join_no_lines_of_logs_without_traces(language: str, real_logs: list[Path]) -> None:
    for path in real_logs:
        stream = path.read_bytes()
        assert not any("\n" in message for message in cut(stream, {"preset": language})), path
