"""Rows of bronze that are appended to a stream again: each once, interrupted and repeated."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from logdrive.cli.main import cli
from logdrive.errors import ConfigError, StorageError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.bronze.beginnings import Beginning
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.bronze.writer import Bronze
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.erase import erase_rows
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.spark.source import LogdriveSource
from logdrive.pipeline.write import replay
from logdrive.pipeline.write.replay import ReplayCounts, ReplayFilter, replay_rows
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.client.writer import AppendWriter
from tests.logdrive.pipeline.filling import catch_up, send, task
from tests.logdrive.pipeline.segments import STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.storing import served

_TURNS = 8


@pytest.fixture
def segments(tmp_path: Path) -> list[Segment]:
    """Tables of two segments, in `tables`: a source each, a second a batch, and quarantine."""
    made = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(2)]
    for number, segment in enumerate(made):
        at = 0
        for turn in range(_TURNS):
            segment.clock = turn * 1000
            at = send(segment, f"s{number}", lines(f"s{number}", turn * 50, 50), at)
    made[0].foreign("beats", [b"{"])
    catch_up(tmp_path / "tables", *made)
    return made


@pytest.fixture
def to(tmp_path: Path, segments: list[Segment]) -> Iterator[StreamClient]:
    with served(tmp_path / "store", segments[0]) as face:
        yield StreamClient(face.target, "logs", "again")


def _replay(
    tmp_path: Path,
    to: StreamClient,
    where: ReplayFilter | None = None,
    directory: str = "tables",
    on_progress: Callable[[int, int], None] = lambda *_: None,
    **more: Any,
) -> ReplayCounts:
    settings: dict[str, Any] = {"name": "test", "segments": 2, "dry_run": False} | more
    return replay_rows(
        str(tmp_path / directory),
        to,
        where or ReplayFilter(),
        on_progress,
        transport=SystemTransport(),
        clock=SystemClock(),
        **settings,
    )


def _messages(to: StreamClient) -> Counter[str]:
    one = LogdriveSource({"uri": to.uri, **to.connection_options(), "columns": "message"})
    reader = one.reader(one.schema())
    return Counter(
        row["message"]
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    )


def _expected(first: int = 0, end: int = _TURNS, sources: tuple[str, ...] = ("s0", "s1")) -> Any:
    return Counter(
        line
        for source in sources
        for line in lines(source, first * 50, (end - first) * 50).decode().splitlines()
    )


def test_a_replay_that_is_repeated_appends_each_row_once(tmp_path: Path, to: StreamClient) -> None:
    assert _replay(tmp_path, to).appended == 2 * _TURNS * 50
    assert _replay(tmp_path, to).appended == 0
    assert _messages(to) == _expected()


def test_rows_that_came_since_are_appended_by_the_next_one(
    tmp_path: Path, to: StreamClient, segments: list[Segment]
) -> None:
    _replay(tmp_path, to)
    send(segments[1], "s1", lines("s1", _TURNS * 50, 50), len(lines("s1", 0, _TURNS * 50)))
    catch_up(tmp_path / "tables", *segments)
    assert _replay(tmp_path, to).appended == 50
    assert _messages(to) == _expected() + _expected(_TURNS, _TURNS + 1, ("s1",))


@pytest.mark.parametrize("after", [0, 1, 7, 8, 11])
def test_an_interrupted_replay_is_finished_by_the_next_one(
    after: int, tmp_path: Path, to: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "_READ_ROWS", 100)
    real, sent = AppendWriter.append_data, 0

    def failing(self: AppendWriter, *arguments: Any, **more: Any) -> Any:
        nonlocal sent
        sent += 1
        if sent == after + 1:
            raise KeyboardInterrupt
        return real(self, *arguments, **more)

    told: list[tuple[int, int]] = []

    def on_progress(done: int, rows: int) -> None:
        told.append((done, rows))

    with monkeypatch.context() as patch:
        patch.setattr(AppendWriter, "append_data", failing)
        with pytest.raises(KeyboardInterrupt):
            _replay(tmp_path, to, on_progress=on_progress)
    rows = 2 * _TURNS * 50 + 1  # with one in quarantine
    assert told[0] == (0, rows)
    assert told[-1][0] < rows
    for _ in range(2):  # the second time all was appended before
        told.clear()
        _replay(tmp_path, to, on_progress=on_progress)
        assert told == sorted(told)
        assert (told[0], told[-1]) == ((0, rows), (rows, rows))
    assert _messages(to) == _expected()


def test_rows_that_a_backfill_brought_are_appended_by_the_next_one_too(
    tmp_path: Path, segments: list[Segment]
) -> None:
    """Tables that begin at a time, half of which came later than the rest."""
    directory, (segment, _) = tmp_path / "begun", segments
    hops = list(walk_batches(segment.name, 0, bytes(segment.data)))
    begin, clock, disk = hops[4].offset, SystemClock(), SystemDisk()
    with (
        served(tmp_path / "store", segment) as face,
        Bronze(str(directory), clock=clock, disk=disk) as follow,
        Bronze(str(directory), clock=clock, disk=disk, backfill=True) as before,
    ):
        to = StreamClient(face.target, "logs", "again")
        follow.begin_at([Beginning(STREAM, segment.name, begin, 4000)])
        follow.commit_ranges([task(directory, segment, begin, hops[6].offset)])
        assert _replay(tmp_path, to, directory="begun").appended == 100
        before.commit_ranges([task(directory, segment, 0, hops[2].offset)])
        assert _replay(tmp_path, to, directory="begun").appended == 100
        follow.commit_ranges([task(directory, segment, hops[6].offset)])
        before.commit_ranges([task(directory, segment, hops[2].offset, begin)])
        assert _replay(tmp_path, to, directory="begun").appended == 200
        assert _replay(tmp_path, to, directory="begun").appended == 0
        assert _messages(to) == _expected(sources=("s0",))


def test_a_filter_chooses_sources_and_times(tmp_path: Path, to: StreamClient) -> None:
    where = ReplayFilter((source_id("s1"),), 2000, 5000)
    assert _replay(tmp_path, to, where, dry_run=True) == ReplayCounts(150, 0)
    assert to.list_segments() == []
    assert _replay(tmp_path, to, where).appended == 150
    assert _messages(to) == _expected(2, 5, ("s1",))


def test_tables_that_lack_what_was_replayed_are_refused(
    tmp_path: Path, to: StreamClient, segments: list[Segment]
) -> None:
    _replay(tmp_path, to)
    (tmp_path / "tables").rename(tmp_path / "old")
    half = [Segment(name=one.name) for one in segments]
    for segment in half:
        send(segment, "s0", lines("s0", 0, 50))
    catch_up(tmp_path / "tables", *half)
    with pytest.raises(StorageError, match="give another --name"):
        _replay(tmp_path, to)
    assert _messages(to) == _expected()


@pytest.mark.parametrize(
    ("other", "rows"),
    [
        (ReplayFilter((source_id("s1"),)), 400),
        (ReplayFilter(since=2000), 600),
        (ReplayFilter(until=5000), 500),
        (ReplayFilter((source_id("s0"), source_id("s1"))), 800),
    ],
)
def test_another_selection_under_one_name_is_refused_and_appends_nothing(
    other: ReplayFilter, rows: int, tmp_path: Path, to: StreamClient
) -> None:
    _replay(tmp_path, to)
    with pytest.raises(ConfigError, match=r"--name = test: .* or another --name"):
        _replay(tmp_path, to, other)
    assert _messages(to) == _expected()
    assert _replay(tmp_path, to, other, name="again").appended == rows


def test_a_narrow_selection_is_no_beginning_of_a_wider_one(
    tmp_path: Path, to: StreamClient
) -> None:
    """Its numbers do not say which rows were left out."""
    narrow = ReplayFilter((source_id("s0"), source_id("s1")), 2000, 5000)
    assert _replay(tmp_path, to, narrow).appended == 300
    with pytest.raises(ConfigError, match="--name"):
        _replay(tmp_path, to)
    same = ReplayFilter((source_id("s1"), source_id("s0"), source_id("s1")), 2000, 5000)
    assert _replay(tmp_path, to, same).appended == 0
    assert _messages(to) == _expected(2, 5)


def test_a_selection_without_rows_is_none_that_a_name_is_used_for(
    tmp_path: Path, to: StreamClient
) -> None:
    assert _replay(tmp_path, to, ReplayFilter(since=10**12)).appended == 0
    assert _replay(tmp_path, to).appended == 2 * _TURNS * 50


def test_a_replay_that_was_killed_before_its_first_row_goes_on_with_its_selection_alone(
    tmp_path: Path, to: StreamClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(replay, "append_batches", killed)
        with pytest.raises(KeyboardInterrupt):
            _replay(tmp_path, to, ReplayFilter(until=5000))
    with pytest.raises(ConfigError, match="--name"):
        _replay(tmp_path, to)
    assert _replay(tmp_path, to, ReplayFilter(until=5000)).appended == 500
    assert _messages(to) == _expected(0, 5)


def test_of_two_replays_of_a_name_that_begin_together_one_selection_is_refused(
    tmp_path: Path, to: StreamClient
) -> None:
    """The second one has read the attribute before the first one sets it."""
    first_look, real = threading.Event(), SegmentClient.update_attribute
    went_on: list[Any] = []

    async def late(self: SegmentClient, *arguments: Any) -> bool:
        if not first_look.is_set():
            first_look.set()
            went_on.append(await asyncio.to_thread(_replay, tmp_path, to))
        return await real(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SegmentClient, "update_attribute", late)
        with pytest.raises(ConfigError, match="--name"):
            _replay(tmp_path, to, ReplayFilter(until=5000))
    assert went_on[0].appended == 2 * _TURNS * 50
    assert _messages(to) == _expected()


def test_files_that_were_joined_between_two_replays_change_nothing(
    tmp_path: Path, to: StreamClient, segments: list[Segment]
) -> None:
    for turn in range(4):
        at = (_TURNS + turn) * 50
        send(segments[1], "s1", lines("s1", at, 50), len(lines("s1", 0, at)))
        catch_up(tmp_path / "tables", *segments)
    assert _replay(tmp_path, to).appended == 2 * _TURNS * 50 + 200
    for table in open_tables(str(tmp_path / "tables")):
        assert DeltaTable(table.path).optimize.compact()["numFilesRemoved"] > 1
    assert _replay(tmp_path, to).appended == 0
    with pytest.raises(ConfigError, match="--name"):
        _replay(tmp_path, to, ReplayFilter(since=2000))


def test_rows_erased_before_the_last_one_are_neither_counted_nor_in_the_way(
    tmp_path: Path, to: StreamClient
) -> None:
    assert _replay(tmp_path, to).rows == 2 * _TURNS * 50 + 1
    _erase(tmp_path, "message LIKE 's0 line 1_ %'")
    assert _replay(tmp_path, to) == ReplayCounts(2 * _TURNS * 50 + 1 - 10, 0)


def test_a_replay_whose_last_rows_were_erased_is_refused_with_the_remedy(
    tmp_path: Path, to: StreamClient
) -> None:
    _replay(tmp_path, to)
    _erase(tmp_path, f"message LIKE 's1 line {_TURNS * 50 - 1} %'")
    with pytest.raises(StorageError, match=r"last under the name 'test'.*another --name"):
        _replay(tmp_path, to)
    assert _messages(to) == _expected()


def _erase(tmp_path: Path, where: str) -> None:
    directory, clock, disk = str(tmp_path / "tables"), SystemClock(), SystemDisk()
    assert erase_rows(directory, where, by="ann", why="", clock=clock, disk=disk).rows


def test_the_command_says_how_many_rows_there_are(tmp_path: Path, segments: list[Segment]) -> None:
    command = ["pipeline", "replay", str(tmp_path / "tables"), "--to", "pravega://h/a/b"]
    dry = CliRunner().invoke(cli, [*command, "--from", "1970-01-01T00:00:06Z", "--dry-run"])
    assert dry.exit_code == 0, dry.output
    assert "201 rows would be appended" in dry.output


def test_a_time_that_is_none_is_named(tmp_path: Path, segments: list[Segment]) -> None:
    command = ["pipeline", "replay", str(tmp_path / "tables"), "--to", "pravega://h/a/b"]
    wrong = CliRunner().invoke(cli, [*command, "--until", "noon"])
    assert wrong.exit_code == 2
    assert "write a time such as" in wrong.output


def _command(tmp_path: Path, *options: str) -> Result:
    to = ["--to", "pravega://h/a/b", "--dry-run"]
    return CliRunner().invoke(cli, ["pipeline", "replay", str(tmp_path / "tables"), *to, *options])


@pytest.mark.parametrize(
    ("wanted", "rows"),
    [
        (source_id("s0"), 400),
        (source_id("s0")[:8], 400),
        (source_id("s0/origin"), 400),
        ("/var/log/s0.log", 400),
        (source_id("beats")[:8], 1),
    ],
)
def test_a_source_is_named_as_for_cat_and_may_be_a_foreign_peer(
    wanted: str, rows: int, tmp_path: Path, segments: list[Segment]
) -> None:
    dry = _command(tmp_path, "--source", wanted)
    assert dry.output.startswith(f"{rows} rows would be appended"), dry.output


def test_a_source_that_is_none_is_refused_with_a_list_of_all(
    tmp_path: Path, segments: list[Segment]
) -> None:
    wrong = _command(tmp_path, "--source", "zzz")
    assert wrong.exit_code == 2
    assert "'zzz' matches no source" in wrong.output
    assert all(source_id(name) in wrong.output for name in ("s0", "s1", "beats"))


def test_a_beginning_behind_the_end_is_refused(tmp_path: Path, segments: list[Segment]) -> None:
    wrong = _command(tmp_path, "--from", "2026-11-24T00:00Z", "--until", "2026-11-23T00:00Z")
    assert wrong.exit_code == 2
    assert "later than --until 2026-11-23T00:00Z" in wrong.output
