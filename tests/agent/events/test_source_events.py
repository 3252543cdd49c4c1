"""What is done with the events of one source, and what is counted of it."""

from agent.config.files import InputTable
from agent.events.cutting.make import make_cutter
from agent.events.source_events import SourceEvents
from logdrive.records.chunk import TextChunk


def test_events_over_the_limit_are_counted_once_however_many_chunks_they_are_in() -> None:
    settings = InputTable(paths=["/"], longest_event_bytes=4)
    events, cutter = SourceEvents(settings), make_cutter(settings)
    at, in_line, read = 0, False, list[str]()
    # a line that is read in three pieces stands among the others
    for text in (b"12345\nok\n", b"12345678", b"90", b"1\n12345\n"):
        open_end = not text.endswith(b"\n")
        chunk = TextChunk(at, text, 0, len(text), open_end, in_line)
        kept, reached = events.read_events(cutter, chunk, 100)
        read += [event.message for event in kept]
        at, in_line = at + len(text), open_end
        assert reached == at
    assert read == ["1234", "ok", "1234", "1234"]
    assert events.truncated == 3
