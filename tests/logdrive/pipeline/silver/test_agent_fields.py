"""Lines that came with fields of the agent's format are recognised as those without (R2)."""

import pyarrow as pa
import pytest

from agent.config.events import EventsTable
from agent.config.formats import FormatName, FormatTable
from agent.events.cutter import LINES
from agent.events.encoder import EventEncoder
from agent.events.formats.make import make_format
from agent.events.source_events import SourceEvents
from logdrive.pipeline.formats.catalog import recognize
from logdrive.pipeline.formats.format import LogLines
from logdrive.pipeline.silver.runs import LINE_COLUMNS
from logdrive.records.chunk import TextChunk
from tests.logdrive.pipeline.decode.test_event_records import OUTPUTS, store
from tests.logdrive.pipeline.decode.test_packs import decoded
from tests.logdrive.pipeline.segments import Segment

LINE: dict[FormatName, tuple[str, str]] = {
    "json": ('{"level":"info","msg":"order placed","n":%d}', "json"),
    "logfmt": ("level=info msg=placed n=%d", "logfmt"),
    "syslog": ("<30>Oct 11 22:14:15 mymachine su[%d]: message", "syslog"),
    "klog": ("I0102 15:04:05.678901   %d server.go:123] message", "klog"),
    "access": (
        '::1 - - [17/May/2015:10:05:03 +0000] "GET /%d HTTP/1.1" 200 5 "-" "curl"',
        "access",
    ),
    # what the container wrote has a format of its own
    "cri": ('2016-10-06T00:17:09.669794202Z stdout F {"level":"info","n":%d}', "json"),
    "docker": (
        r'{"log":"level=info n=%d\n","stream":"stdout","time":"2016-10-06T00:17:09.6Z"}',
        "logfmt",
    ),
}


@pytest.mark.parametrize("form", OUTPUTS)
@pytest.mark.parametrize("name", LINE)
def test_silver_finds_the_format_of_lines_that_have_fields(name: FormatName, form: str) -> None:
    line, expected = LINE[name]
    data = "".join(f"{line % number}\n" for number in range(50)).encode()
    steps = make_format(FormatTable(type=name), lambda: None, lambda _: None)
    encoder = EventEncoder(SourceEvents(EventsTable(), steps), LINES, OUTPUTS[form])
    segment = Segment()
    for run in encoder.encode_chunk(TextChunk.from_whole_file(data), 0, 1_700_000_000_000):
        store(segment, run)
    table, _ = decoded(segment)
    assert steps.counts.parsed == len(table) == 50
    columns = [table[column].combine_chunks() for column in LINE_COLUMNS]
    lines = LogLines(*(pa.array(column.to_pylist(), column.type) for column in columns))
    assert recognize(lines) == expected
