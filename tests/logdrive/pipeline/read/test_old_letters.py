"""Dead letters of earlier versions, which left no note, get one: audits count them (R7)."""

import base64
from pathlib import Path
from uuid import UUID

import orjson
import pytest
import structlog

from logdrive.errors import TransientError
from logdrive.pipeline.audit.dead_letters import letters_from_notes, notes_from_table
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.read.old_letters import note_old_letters
from logdrive.pipeline.read.stream import StreamClient
from logdrive.services.reader import ServiceReader
from receiver.dialects.dead_letters import dead_letter_records as letter_records
from tests.logdrive.pipeline.audit.test_sources import batches_in
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import Segment, lines, source_id
from tests.logdrive.pipeline.storing import store

DEAD = "logs/app-dead/0.#epoch.0"


def old_records(number: int, payload: bytes) -> list[bytes]:
    """Return *payload* as a letter in two pieces, as receivers wrote them that left no note."""
    half = len(payload) // 2
    return [
        orjson.dumps(
            {
                "dead_letter": {
                    "id": str(UUID(int=number)),
                    "reason": f"a record of {len(payload)} bytes, over 786432",
                    "bytes": len(payload),
                    "piece": piece,
                    "pieces": 2,
                },
                "original_base64": base64.b64encode(part).decode(),
            }
        )
        for piece, part in ((1, payload[:half]), (2, payload[half:]))
    ]


def noted(face: ServiceReader) -> list[tuple[str | None, str | None, int, str]]:
    """Return the letters that the tables would know of."""
    segment = Segment()
    (state,) = face.list_segments()
    segment.data += b"".join(data for _, data in face.read_chunks(segment.name, 0, state.length))
    notes = [note for note in notes_from_table(batches_in(segment)) if note.mark_reason]
    assert len(notes) == len(letters_from_notes(notes)), "a letter was noted twice"
    return [(one.id, one.source, one.bytes, one.state) for one in letters_from_notes(notes)]


def test_r7_letters_without_a_note_get_one_each_once_and_later_ones_too(tmp_path: Path) -> None:
    segment, letters = Segment(), Segment(name=DEAD)
    send(segment, "a", lines("a", 0, 3))
    first, second = old_records(1, b"x" * 900_000), old_records(2, b"y" * 800_000)
    for record in [*first, *letter_records(b"new", UUID(int=3)), second[0]]:
        letters.foreign("beats", [record])
    uri = store(tmp_path, segment, letters)
    expected = [(str(UUID(int=1)), source_id("beats"), 900_000, "waiting")]
    with open_stream(uri) as face:
        for _ in range(2):
            note_old_letters(face)
            assert noted(face) == expected
    since = len(letters.data)
    letters.foreign("beats", [second[1]])
    store(tmp_path, letters, since=since)
    with open_stream(uri) as face:
        for _ in range(2):
            note_old_letters(face)
            assert noted(face) == [
                *expected,
                (str(UUID(int=2)), source_id("beats"), 800_000, "waiting"),
            ]


def test_a_stream_without_dead_letters_gets_nothing(tmp_path: Path) -> None:
    segment = Segment()
    send(segment, "a", lines("a", 0, 3))
    with open_stream(store(tmp_path, segment)) as face:
        note_old_letters(face)
        (state,) = face.list_segments()
    assert state.length == len(segment.data)


def test_a_service_that_refuses_the_dead_letters_ends_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: StreamClient) -> None:
        raise TransientError("no answer")

    segment = Segment()
    send(segment, "a", lines("a", 0, 3))
    with open_stream(store(tmp_path, segment)) as face:
        monkeypatch.setattr(StreamClient, "list_segments", refuse)
        with structlog.testing.capture_logs() as logs:
            note_old_letters(face)
    assert [log["reason"] for log in logs] == ["no answer"]
