"""No line raises, whatever it says, and no line changes what another becomes."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.pipeline.formats.catalog import FORMATS, make_format, recognize, recognize_all
from logdrive.pipeline.formats.format import FormatOptions, ParsedLines
from tests.logdrive.pipeline.formats.log_lines import log_lines, rows

EXAMPLES = [
    '::1 - a [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 12 "-" "Mozilla" 0.1',
    "2015-10-18 18:01:47,978 INFO [main] org.apache.Foo: started",
    "03-17 16:13:38.811  1702  2395 D WindowManager: acquire",
    "081109 203615 148 INFO dfs.DataNode: PacketResponder",
    "I0102 15:04:05.123456   12345 file.go:123] msg",
    '{"time":"2026-01-02T03:04:05Z","level":"info","msg":"a","status":200,"x":[1,{"y":"z"}]}',
    'time=2026-01-02T03:04:05Z level=info msg="a \\"b\\"" took=12ms n=1',
    "2016-10-06T00:17:09.669794202Z stdout F hello",
    '{"log":"a\\n","stream":"stdout","time":"2016-10-06T00:17:09.669794202Z"}',
    "<34>Oct 11 22:14:15 mymachine su[230]: failed",
    '<165>1 2003-10-11T22:14:15.003Z host app 111 ID47 [a@1 b="c"] message',
    "java.lang.NullPointerException: x",
    "\tat com.example.Foo.bar(Foo.java:12)",
]
BYTES = "\0\n\r\t \"'\\[]{}<>:=,/.-+0123456789aZ\u00e9\ufeff\ufffd\U0001f600"


@st.composite
def broken(draw: st.DrawFn) -> str:
    """An example with a few characters changed, so that it nearly fits."""
    text = list(draw(st.sampled_from(EXAMPLES)))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text) - 1))
        text[at] = draw(st.sampled_from(["", *BYTES, "9" * 20, "\\ud800"]))
    return "".join(text)


replaced = st.binary(max_size=40).map(lambda data: data.decode(errors="replace"))
texts = st.lists(st.one_of(st.none(), st.text(max_size=40), replaced, broken()), max_size=6)
options = FormatOptions(zone="Europe/Berlin", columns={"n": "int", "x": "string", "y": "time"})


def without_traces(parsed: ParsedLines) -> list[dict[str, object]]:
    """Return rows without what a line has of the lines before it."""
    return [
        {} if "trace" in row else {key: row[key] for key in row if key != "fingerprint"}
        for row in rows(parsed)
    ]


@pytest.mark.parametrize("name", FORMATS)
@given(texts=texts)
@settings(max_examples=25)
def test_no_line_raises_or_changes_another(name: str, texts: list[str | None]) -> None:
    one = make_format(name, options)
    lines = log_lines(texts)

    whole = one.parse(lines)
    alone = [one.parse(lines.slice(n, 1)) for n in range(len(lines))]

    assert whole.columns.schema == one.schema
    assert len(whole.time) == len(whole.reasons) == whole.columns.num_rows == len(lines)
    for column in whole.columns.columns:
        column.validate(full=True)
    together, each = without_traces(whole), [without_traces(two)[0] for two in alone]
    for mine, other in zip(together, each, strict=True):
        assert mine == other or not mine or not other  # {}: part of a trace


@given(texts=texts)
@settings(max_examples=30)
def test_a_line_with_a_reason_has_nothing_else(texts: list[str | None]) -> None:
    for name in FORMATS:
        for row in rows(make_format(name).parse(log_lines(texts))):
            assert "reason" not in row or set(row) == {"reason"}


@given(texts=texts)
@settings(max_examples=30)
def test_recognizing_never_raises(texts: list[str | None]) -> None:
    assert recognize(log_lines(texts)) in {None, *FORMATS}


@given(samples=st.lists(texts, max_size=5))
@settings(max_examples=20)
def test_samples_are_recognized_together_as_each_by_itself(samples: list[list[str | None]]) -> None:
    lines = [log_lines(sample) for sample in samples]
    assert recognize_all(lines) == [recognize(one) for one in lines]


def test_many_samples_are_recognized_in_parts_as_each_by_itself() -> None:
    samples = [[line] * 150 for line in EXAMPLES] * 6
    lines = [log_lines([str(number), *sample]) for number, sample in enumerate(samples)]
    assert recognize_all(lines) == [recognize(one) for one in lines]


def test_slices_and_sources_without_codes_are_read_alike() -> None:
    texts = [EXAMPLES[1], EXAMPLES[12], EXAMPLES[1], "x"]
    whole = log_lines(["first", *texts])
    sliced = whole.slice(1, 4)
    assert rows(make_format("hadoop").parse(sliced))[0]["trace"] == 6
    assert pa.types.is_dictionary(sliced.source.type)
