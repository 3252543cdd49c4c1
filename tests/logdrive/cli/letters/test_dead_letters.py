"""`logdrive store dead-letters`: letters are listed and printed, and replayed once (R6, R7)."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest

from logdrive.cli.letters.replaying import replay
from logdrive.model.limits import EVENT_BYTES, RECORD_BYTES
from logdrive.packs.faults import PackFault
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.spark.options import Options
from logdrive.pipeline.spark.source import read_rows_of_range
from logdrive.services.pravega.client.client import SegmentClient, connect_segment_store
from logdrive.services.pravega.reader.dead_letters import read_dead_letters
from logdrive.services.pravega.reader.stream import ReadableSegment, read_lines
from receiver.dialects.dead_letters import dead_letter_records as letter_records
from tests.logdrive.pipeline.filling import planned, send
from tests.logdrive.pipeline.segments import Segment, source_id
from tests.logdrive.pipeline.segments import lines as text
from tests.logdrive.pipeline.storing import store
from tests.logdrive.services.pravega.reader.test_segment import batch
from tests.support.installation import command
from tests.support.pravega.framings import W
from tests.support.pravega.peer import S, World, in_world

LARGE = orjson.dumps({"message": "l" * (2 * RECORD_BYTES)})
TOO_LARGE = orjson.dumps({"message": "t" * EVENT_BYTES})


def dead(*payloads: bytes) -> list[list[bytes]]:
    """Return the records of one letter for each of *payloads*."""
    return [
        list(letter_records(payload, UUID(int=number + 7, version=4)))
        for number, payload in enumerate(payloads)
    ]


def filled(directory: Path, *payloads: bytes) -> str:
    """Make a store with a stream and dead letters, the last of which lacks its end; return the
    stream's address.
    """
    segment, letters = Segment(), Segment(name="logs/app-dead/0.#epoch.0")
    send(segment, "a", text("a", 0, 3))
    *whole, cut = dead(*payloads)
    for record in [*(record for records in whole for record in records), *cut[:-1]]:
        letters.foreign("beats", [record])
    return store(directory, segment, letters)


def logdrive(*arguments: str, code: int = 0) -> bytes:
    done = subprocess.run(
        command("store", *arguments), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout


def outcomes(said: bytes) -> list[str]:
    return [row["outcome"] for row in orjson.loads(said)["dead_letters"]]


@pytest.mark.process
def test_letters_are_listed_printed_and_replayed_once(tmp_path: Path) -> None:
    uri = filled(tmp_path, LARGE, TOO_LARGE, LARGE)
    rows = orjson.loads(logdrive("dead-letters", "ls", uri, "--json"))["dead_letters"]
    assert [(row["bytes"], row["whole"], row["source"]) for row in rows] == [
        (len(LARGE), True, source_id("beats")),
        (len(TOO_LARGE), True, source_id("beats")),
        (len(LARGE), False, source_id("beats")),
    ]
    assert rows[0]["id"].encode() in logdrive("dead-letters", "ls", uri)
    assert logdrive("dead-letters", "cat", uri) == LARGE + b"\n" + TOO_LARGE + b"\n"
    assert logdrive("dead-letters", "cat", uri, rows[1]["id"]) == TOO_LARGE + b"\n"
    logdrive("dead-letters", "cat", uri, "0", code=2)  # the beginning of all
    assert [row["state"] for row in rows] == ["waiting"] * 3
    before = logdrive("cat", uri)
    dry = logdrive("dead-letters", "replay", uri, "--dry-run", "--json", code=1)
    assert outcomes(dry) == ["would be replayed", "too long", "not whole"]
    assert logdrive("cat", uri) == before
    assert outcomes(logdrive("dead-letters", "replay", uri, "--json", code=1)) == [
        "replayed",
        "too long",
        "not whole",
    ]
    assert b"already replayed" in logdrive("dead-letters", "replay", uri, rows[0]["id"])
    assert logdrive("cat", uri) == before + b"l" * (2 * RECORD_BYTES) + b"\n"
    assert _messages(uri) == [*text("a", 0, 3).decode().splitlines(), "l" * (2 * RECORD_BYTES)]


@pytest.mark.process
def test_r7_dismissed_letters_are_listed_as_that_noted_once_and_not_replayed(
    tmp_path: Path,
) -> None:
    uri = filled(tmp_path, LARGE, TOO_LARGE, LARGE)
    rows = orjson.loads(logdrive("dead-letters", "ls", uri, "--json"))["dead_letters"]
    why = ("--reason", "a core dump", "--by", "ada", "--json")
    logdrive("dead-letters", "dismiss", uri, *why, code=2)  # which ones?
    logdrive("dead-letters", "dismiss", uri, rows[1]["id"], "--all", *why, code=2)
    logdrive("dead-letters", "dismiss", uri, "--all", "--reason", "two\nlines", code=2)
    logdrive("dead-letters", "dismiss", uri, "--all", code=2)  # why?
    dry = logdrive("dead-letters", "dismiss", uri, rows[1]["id"], "--dry-run", *why)
    assert (outcomes(dry), _notes(uri)) == (["would be dismissed"], [])
    assert outcomes(logdrive("dead-letters", "dismiss", uri, rows[1]["id"], *why)) == ["dismissed"]
    again = logdrive("dead-letters", "dismiss", uri, rows[1]["id"], *why)
    assert outcomes(again) == ["already dismissed"]
    assert _notes(uri) == [(rows[1]["id"], len(TOO_LARGE), "ada", "a core dump")]
    said = logdrive("dead-letters", "replay", uri, "--json", code=1)
    assert outcomes(said) == ["replayed", "dismissed", "not whole"]
    assert outcomes(logdrive("dead-letters", "dismiss", uri, rows[0]["id"], *why)) == [
        "already replayed"
    ]
    assert outcomes(
        logdrive("dead-letters", "dismiss", uri, "--source", rows[2]["source"], *why)
    ) == ["dismissed"]
    assert outcomes(logdrive("dead-letters", "dismiss", uri, "--all", *why)) == []
    rows = orjson.loads(logdrive("dead-letters", "ls", uri, "--json"))["dead_letters"]
    assert [row["state"] for row in rows] == ["replayed", "dismissed", "dismissed"]
    assert b"dismissed" in logdrive("dead-letters", "ls", uri)


@pytest.mark.process
def test_a_stream_without_dead_letters_says_so(tmp_path: Path) -> None:
    segment = Segment()
    send(segment, "a", text("a", 0, 3))
    uri = store(tmp_path, segment)
    assert logdrive("dead-letters", "ls", uri) == b"no dead letters\n"
    assert logdrive("dead-letters", "replay", uri) == b"no dead letters\n"
    assert (
        logdrive("dead-letters", "dismiss", uri, "--all", "--reason", "x")
        == b"no dead letter is waiting\n"
    )


@pytest.mark.process
def test_r7_a_letter_whose_bytes_are_gone_is_dismissed_by_its_whole_id(tmp_path: Path) -> None:
    uri, gone = filled(tmp_path, LARGE), str(UUID(int=99, version=4))
    said = logdrive("dead-letters", "dismiss", uri, gone, "--reason", "cut off", "--by", "ada")
    assert said.decode() == f"{gone}: dismissed (its bytes are not among the dead letters)\n"
    assert _notes(uri) == [(gone, 0, "ada", "cut off")]
    logdrive("dead-letters", "dismiss", uri, gone[:-1], "--reason", "cut off", code=2)


def _notes(uri: str) -> list[tuple[str, int, str, str]]:
    """Return the dismissals that the stream has notes of: id, bytes, by, why."""
    with open_stream(uri) as face:
        (state,) = face.list_segments()
        headers = [hop.header for hop in face.read_batch_refs(state.segment, 0, state.length)]
    found = []
    for header in headers:
        if header is not None and b"dismissed" in bytes(header.mark):
            mark, about = orjson.loads(bytes(header.mark)), orjson.loads(bytes(header.attributes))
            found.append((mark["letter"], mark["end"], about["by"], about["why"]))
    return found


def _messages(uri: str) -> list[str]:
    segment = Segment()
    with open_stream(uri) as face:
        (state,) = face.list_segments()
        segment.data += b"".join(
            data for _, data in face.read_chunks(segment.name, 0, state.length)
        )
        batches = list(read_rows_of_range(Options(face), planned(segment, 0)))
    return [row["message"] for one in batches for row in one.to_pylist()]


@in_world
async def test_a_replay_that_was_cut_short_is_done_by_next_and_the_event_is_there_once(
    made: World,
) -> None:
    other = "logs/app-dead/0.#epoch.0"
    await made.store.create(S)
    await made.store.create(other)
    for number, record in enumerate(dead(LARGE)[0], 1):
        await made.store.append(
            other, batch([record]), writer=W, expected=None, number=number, events=2
        )
    async with connect_segment_store(made.client, "server", made.port) as client:

        async def there(name: str) -> list[ReadableSegment]:
            state = await client.segment_info(name)
            assert state is not None
            return [ReadableSegment(client, state)]

        (letter,) = await read_dead_letters(await there(other))
        for attempt in (1, 2):
            cut = [ReadableSegment(_Breaking(client, attempt), (await there(S))[0].state)]  # type: ignore[arg-type]
            with pytest.raises(ConnectionError):
                await replay(letter, cut, dry_run=False)
        assert await replay(letter, await there(S), dry_run=False) == "replayed"
        assert await replay(letter, await there(S), dry_run=False) == "already replayed"
        (whole,) = await there(S)
        faults: list[PackFault] = []
        lines = read_lines(client, whole.state, follow=False, on_fault=faults.append)
        printed = [line async for _, line in lines]
    assert not faults
    assert printed == [b"l" * (2 * RECORD_BYTES) + b"\n"]


class _Breaking:
    """A client whose writers append *left* batches and fail then."""

    def __init__(self, client: SegmentClient, left: int) -> None:
        self._client, self._left, self._place = client, left, Any

    async def set_up_writer(self, segment: str, writer: UUID) -> Any:
        self._place = await self._client.set_up_writer(segment, writer)  # type: ignore[assignment]
        return self

    @property
    def durable(self) -> int:
        return self._place.durable  # type: ignore[attr-defined, no-any-return]

    async def get_attribute(self, segment: str, attribute: UUID) -> int:
        return await self._client.get_attribute(segment, attribute)

    def append_data(self, data: Sequence[bytes], *, events: int, number: int) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ConnectionError
        return self._place.append_data(data, events=events, number=number)  # type: ignore[attr-defined]
