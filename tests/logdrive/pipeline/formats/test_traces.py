"""Stack traces: their lines belong to the event before them, and tell what happened again."""

import pyarrow as pa
import pytest

from logdrive.pipeline.formats.catalog import make_format
from logdrive.pipeline.formats.fingerprints import fingerprint_texts
from logdrive.pipeline.formats.traces import WithTraces
from tests.logdrive.pipeline.formats.log_lines import log_lines, parse, rows, utc

EVENT = "2015-10-18 18:01:47,978 ERROR [main] o.a.Foo: oops"
JAVA = [
    "java.lang.NullPointerException: order 17",
    "\tat com.example.Foo.bar(Foo.java:12)",
    "\t... 12 more",
    "Caused by: java.io.IOException: disk 0xff is full",
    "\tat com.example.Foo$1.run(Foo.java:99) ~[foo-1.2.jar:1.2]",
]
PYTHON = [
    "Traceback (most recent call last):",
    '  File "/srv/app/main.py", line 12, in <module>',
    "    main()",
    "ValueError: 17 is wrong",
]
GO = [
    "panic: runtime error: index out of range [5] with length 3",
    "",
    "goroutine 1 [running]:",
    "main.(*Shop).order(0xc000012345, 0x5)",
    "\t/srv/app/main.go:12 +0x1d",
    "exit status 2",
]
RUBY = ["app/shop.rb:12:in `order': wrong (ArgumentError)", "\tfrom app/main.rb:3:in `<main>'"]
DOTNET = [
    "System.InvalidOperationException: wrong",
    " ---> System.IO.IOException: full",
    "   at Shop.Order(Int32 id) in /src/Shop.cs:line 12",
    "   --- End of inner exception stack trace ---",
]


@pytest.mark.parametrize("trace", [JAVA, PYTHON, GO, RUBY, DOTNET])
def test_lines_of_a_trace_belong_to_the_event_before_them(trace: list[str]) -> None:
    before, event, *lines, after = parse("hadoop", [EVENT, EVENT, *trace, EVENT])

    assert not {"trace", "fingerprint"} & ({*before} | {*after})
    assert event["trace"] == len(EVENT) + 1
    assert [line.get("message", "") for line in lines] == trace
    for line in lines:
        assert line["trace"] == event["trace"]
        assert line["fingerprint"] == event["fingerprint"]
        assert line["time"] == utc(2015, 10, 18, 18, 1, 47, 978000)
        assert not {"reason", "level", "logger"} & set(line)


def test_a_fingerprint_is_the_same_in_every_run() -> None:
    assert fingerprint_texts(pa.array(["\n".join(JAVA)])).to_pylist() == ["1a60a31b07013e98"]


@pytest.mark.parametrize("trace", [JAVA, PYTHON, GO, RUBY, DOTNET])
def test_a_fingerprint_leaves_out_numbers_addresses_and_messages(trace: list[str]) -> None:
    again = [
        line.replace("17", "18")
        .replace("12", "345")
        .replace("0xff is full", "0xab was full")
        .replace("0xc000012345", "0xc0abcdef00")
        for line in trace
    ]
    other = [
        line.replace("order", "other").replace("Foo", "Bar").replace("main", "work")
        for line in trace
    ]
    other = [line.replace("Shop.Order", "Shop.Other") for line in other]
    first, second, third = fingerprint_texts(
        pa.array(["\n".join(one) for one in (trace, again, other)])
    ).to_pylist()
    assert again != trace
    assert first == second != third


def test_a_message_of_several_lines_has_no_fingerprint() -> None:
    event, line = parse("hadoop", [EVENT, "  with more to say"])
    assert event["trace"] == line["trace"] == 0
    assert "fingerprint" not in event


def test_what_is_no_trace_is_refused_and_does_not_end_one() -> None:
    first, refused, second = parse("hadoop", [EVENT, "hello", JAVA[1]])
    assert refused == {"reason": "no hadoop line"}
    assert first["trace"] == second["trace"] == 0


def test_a_trace_without_its_event_belongs_to_its_own_first_line() -> None:
    cut, *trace = parse("hadoop", [JAVA[1], *PYTHON, *PYTHON])
    assert cut == {"message": JAVA[1]}
    place = len(JAVA[1]) + 1
    second = place + sum(len(line) + 1 for line in PYTHON)
    assert [line["trace"] for line in trace] == [place] * 4 + [second] * 4
    assert len({line["fingerprint"] for line in trace}) == 1
    assert not any("time" in line for line in trace)


def test_traces_do_not_cross_sources() -> None:
    one, two = log_lines([EVENT], source="a"), log_lines([JAVA[1]], source="b")
    both = type(one)(
        pa.concat_arrays([one.message, two.message]),
        pa.concat_arrays([one.received, two.received]),
        pa.concat_arrays([one.fields, two.fields]),
        pa.array(["a", "b"]),
        pa.concat_arrays([one.start, two.start]),
        pa.concat_arrays([one.end, two.end]),
    )
    event, line = rows(make_format("hadoop").parse(both))
    assert "trace" not in event
    assert "trace" not in line


def test_a_containers_trace_is_of_one_stream() -> None:
    head = "2016-10-06T00:17:09.669794202Z"
    lines = [f"{head} stderr F {EVENT}", f"{head} stdout F hello"]
    error, other, *trace = parse("cri", [*lines, *(f"{head} stderr F {line}" for line in JAVA)])
    assert "trace" not in other
    assert {line["fingerprint"] for line in trace} == {error["fingerprint"]}
    assert {line["trace"] for line in trace} == {error["trace"]} == {0}


HEAD = "2016-10-06T00:17:09.669794202Z"
IN_CONTAINER = [
    line
    for one in (EVENT, *JAVA, EVENT, EVENT, *PYTHON)
    for line in (f"{HEAD} stderr F {one}", f"{HEAD} stdout F hello")
]


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("hadoop", [EVENT, *JAVA, EVENT, "hello", *PYTHON, "hello", JAVA[1], EVENT]),
        ("hadoop", [JAVA[1], *PYTHON, *PYTHON, EVENT]),
        ("hadoop", [EVENT, *GO, EVENT, *RUBY, EVENT, *DOTNET]),
        ("cri", IN_CONTAINER),
    ],
    ids=["events", "without events", "others", "two streams"],
)
def test_lines_cut_before_what_is_open_make_the_same_traces_as_together(
    name: str, texts: list[str]
) -> None:
    lines, traces = log_lines(texts), make_format(name)
    assert isinstance(traces, WithTraces)
    whole = rows(traces.parse(lines))
    for end in range(1, len(texts)):
        first, second = lines.slice(0, end), lines.slice(end, len(texts) - end)
        cut = end - traces.count_open(first, second)
        parts = [lines.slice(0, cut), lines.slice(cut, len(texts) - cut)]
        assert [row for part in parts if len(part) for row in rows(traces.parse(part))] == whole


def test_nothing_is_open_where_an_event_follows() -> None:
    traces = make_format("hadoop")
    assert isinstance(traces, WithTraces)
    assert traces.count_open(log_lines([EVENT, *JAVA]), log_lines([EVENT, *JAVA])) == 0
    assert traces.count_open(log_lines([EVENT, *JAVA[:2]]), log_lines(JAVA[2:])) == 3
