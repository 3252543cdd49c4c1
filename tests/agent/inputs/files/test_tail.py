"""How often the tailer looks at files, and how many are open at a time."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from agent.config.files import InputTable
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.globs import DirectoryListing, FileInputs
from agent.inputs.files.scanner import Scanner
from agent.inputs.files.tail import Tailer
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter
from agent.sources.incarnation_search import Counting
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.disk import Disk, FileStat
from logdrive.model.limits import FIRST_LINE_BYTES
from logdrive.records.blocks import BlockEncoder
from tests.agent.world import World, contents, lines
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.virtual_time import run

HOUR = 3600.0


class Clock:
    """A clock that moves only when it is set."""

    now = HOUR

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("the tailer does not sleep")


class Log:
    """A log that keeps nothing."""

    def info(self, event: str, **_: object) -> None: ...

    def warning(self, event: str, **_: object) -> None: ...


class CountingDisk(MemoryDisk):
    """A disk that counts how often files were opened, and notes the paths that were looked at."""

    opened = 0

    def __init__(self, directories: Sequence[str]) -> None:
        self.looked: set[str] = set()
        super().__init__(directories)

    def stat(self, path: str) -> FileStat:
        self.looked.add(path)
        return super().stat(path)

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        self.opened += 1
        return super().open(path, write=write, create=create, private=private, direct=direct)


class Tail:
    """A tailer with *files* files of two lines; `read_all` reads as a connection would."""

    def __init__(
        self,
        files: int,
        *,
        max_open_files: int = 1_000_000,
        handles: int = 1_000_000,
        close_idle_seconds: float = 300.0,
    ) -> None:
        self.disk, self.clock = CountingDisk(["/logs"]), Clock()
        self.paths = [f"/logs/{number:05d}.log" for number in range(files)]
        for path in self.paths:
            self.disk.write(path, lines(0, 2))
        inputs = FileInputs([InputTable(paths=["/logs/*.log"])])
        self.registry = SourceRegistry("h", "a", inputs)
        self.tailer = Tailer(
            self.registry,
            SendQueue(),
            fingerprinter=Fingerprinter("a", "h", self.disk),
            disk=self.disk,
            clock=self.clock,
            encoder_of=lambda source: BlockEncoder(),
            open_files=OpenFiles(
                self.disk,
                self.clock,
                Log(),
                max_open_files=max_open_files,
                close_idle_seconds=close_idle_seconds,
                handles=handles,
            ),
            deleted_files=DeletedFiles(1.0, 1 << 30),
            inputs=inputs,
            log=Log(),
            file_log=FileLog(Log(), self.clock),
        )
        self.scanner = Scanner(
            inputs,
            self.registry,
            self.tailer,
            disk=self.disk,
            clock=self.clock,
            rescan_seconds=10.0,
            file_log=FileLog(Log(), self.clock),
        )
        for found in inputs.scan_files(DirectoryListing(self.disk)):
            self.tailer.on_match(found, Counting.KNOWN)

    def scans(self) -> set[str]:
        """Scan once; return which files were looked at."""
        self.disk.looked.clear()
        asyncio.run(self.scanner.scan_inputs())
        return self.disk.looked - {"/logs"}

    def followed(self, path: str) -> FollowedFile:
        return next(
            each for each in self.tailer.followed.values() if each.generation.place.path == path
        )

    def open(self) -> set[str]:
        """Return the paths of the files that are open."""
        return {
            each.generation.place.path
            for each in self.tailer.followed.values()
            if each.generation.file is not None
        }

    def read_all(self) -> None:
        for each in self.tailer.followed.values():
            while each.generation.file is not None and each.generation.has_lines:
                each.generation.read_lines(self.clock.now)

    def passes(self, seconds: float) -> Iterator[None]:
        """Let *seconds* pass while the tailer polls when it is due; yields after each round."""
        until = self.clock.now + seconds
        while self.clock.now < until:
            wait = self.tailer.poll_due(1_000_000)
            assert wait is not None
            yield
            self.clock.now += max(0.01, wait)

    def rests(self, seconds: float) -> None:
        for _ in self.passes(seconds):
            self.read_all()


@pytest.mark.parametrize(
    ("files", "max_open_files", "at_most"), [(10, 16, 0.25), (4000, 4000, 2.0), (4000, 3000, 4.0)]
)
def test_growth_after_a_long_rest_is_seen_within_the_interval_documented(
    files: int, max_open_files: int, at_most: float
) -> None:
    tail = Tail(files, max_open_files=max_open_files, close_idle_seconds=60)
    tail.rests(150)
    closed = sorted({*tail.paths} - tail.open())
    assert len(closed) == max(0, files - max_open_files)
    for path in (closed or tail.paths)[:10]:
        began, seen = tail.clock.now, tail.followed(path).generation.seen
        tail.disk.write(path, lines(2, 1))
        for _ in tail.passes(20):
            if tail.followed(path).generation.seen > seen:
                break
        assert tail.clock.now - began <= at_most + 0.05


def test_files_at_rest_are_polled_two_thousand_times_a_second_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tail = Tail(4000)
    tail.rests(90)
    polls, looks = 0, 0
    rests, look = Generation.is_at_rest, Generation.on_stat

    def counted_poll(generation: Generation, disk: Disk) -> bool:
        nonlocal polls
        polls += 1
        return rests(generation, disk)

    def counted_look(generation: Generation, *arguments: object) -> None:
        nonlocal looks
        looks += 1
        look(generation, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Generation, "is_at_rest", counted_poll)
    monkeypatch.setattr(Generation, "on_stat", counted_look)
    tail.rests(40)
    assert 40 * 1200 < polls + looks <= 40 * 2000
    assert looks <= 2 * 4000, "a close look every 24 s"


def test_a_closed_file_at_rest_is_looked_at_closely_now_and_then_and_an_open_one_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tail = Tail(2000, max_open_files=1600, close_idle_seconds=60)
    tail.rests(150)
    assert len(tail.open()) == 1600
    looked = dict.fromkeys(tail.paths, 0)
    look = Generation.on_stat

    def counted(generation: Generation, *arguments: object) -> None:
        looked[generation.place.path] += 1
        look(generation, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Generation, "on_stat", counted)
    tail.rests(60)
    assert {looked[path] for path in tail.open()} == {0}
    closed = {looked[path] for path in {*tail.paths} - tail.open()}
    assert closed <= {2, 3}, "of thirty looks every twelfth"


def test_the_next_look_sees_that_a_file_at_rest_was_rewritten_at_the_same_length__G4() -> None:
    tail = Tail(4000)
    tail.rests(150)
    path = tail.paths[7]
    before = tail.followed(path).generation
    tail.disk.open(path, write=True).truncate(0)
    tail.disk.write(path, lines(2, 2))
    assert tail.disk.stat(path).size == before.seen
    for _ in tail.passes(2.0):
        pass
    assert before.retired
    assert tail.followed(path).generation is not before


@pytest.mark.parametrize("next_life", [b"next\n", b"next, and longer than before\n" * 3])
def test_a_file_rewritten_between_a_look_and_its_first_bytes_is_one_source__G3(
    next_life: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail, pread = Tail(1), MemoryFile.pread
    path, rewritten = tail.paths[0], list[bytes]()

    def rewrite_first(file: MemoryFile, size: int, offset: int) -> bytes:
        if size == FIRST_LINE_BYTES and not rewritten:
            rewritten.append(next_life)
            tail.disk.open(path, write=True).truncate(0)
            tail.disk.write(path, next_life)
        return pread(file, size, offset)

    monkeypatch.setattr(MemoryFile, "pread", rewrite_first)
    tail.rests(5)
    assert rewritten
    (source,) = tail.registry.sources
    assert source.ended is None
    assert tail.followed(path).generation.position == len(next_life)


def test_the_next_look_sees_that_a_file_at_rest_has_no_name__G1() -> None:
    tail = Tail(4000)
    tail.rests(150)
    removed = tail.followed(tail.paths[7])
    tail.disk.remove(tail.paths[7])
    for _ in tail.passes(2.0):
        pass
    assert removed.generation.unnamed_since is not None


def test_the_next_look_sees_that_a_closed_file_was_replaced_by_one_with_its_inode__G1() -> None:
    tail = Tail(4000, max_open_files=3990, close_idle_seconds=60)
    tail.disk.reuses_inodes = True
    tail.rests(150)
    path = min({*tail.paths} - tail.open())
    closed = tail.followed(path)
    tail.disk.remove(path)
    tail.disk.sync()  # frees the inode
    tail.disk.write(path, lines(2, 2))
    stat = tail.disk.stat(path)
    assert ((stat.device, stat.inode), stat.size) == (
        closed.generation.place.key,
        closed.generation.seen,
    )
    for _ in tail.passes(4.0):
        pass
    assert closed.generation.place.key in tail.tailer.missing


def test_file_that_has_grown_within_last_minute_is_looked_at_as_often_as_one_that_grows() -> None:
    tail = Tail(4000)
    tail.rests(90)
    path = tail.paths[7]
    for number in range(2, 5):
        tail.disk.write(path, lines(number, 1))
        tail.rests(30)
    began, seen = tail.clock.now, tail.followed(path).generation.seen
    tail.disk.write(path, lines(5, 1))
    for _ in tail.passes(20):
        if tail.followed(path).generation.seen > seen:
            break
    assert tail.clock.now - began <= 0.85, "4,000 files at 5,000 looks a second"


def test_no_more_files_are_open_than_there_are_handles() -> None:
    tail = Tail(40, handles=12)
    for _ in tail.passes(30):
        assert len(tail.open()) <= 12
    assert len(tail.open()) == 12


def test_files_take_turns_for_few_handles_all_read_before_they_could_be_rotated_away() -> None:
    tail = Tail(150, handles=32)
    tail.rests(5)
    read = [each.generation.position for each in tail.tailer.followed.values()]
    assert read == [len(lines(0, 2))] * 150


def test_beyond_max_open_files_those_rest_longest_are_closed_and_no_more_than_need_be() -> None:
    tail = Tail(40, max_open_files=16, close_idle_seconds=100)
    tail.rests(60)
    assert len(tail.open()) == 40, "each has grown within the last 100 s"
    late = set(tail.paths[:20])
    for path in late:
        tail.disk.write(path, lines(2, 1))
    tail.rests(60)
    assert tail.open() == late, "these have grown 60 s ago, the others 120 s"
    tail.rests(60)
    assert len(tail.open()) == 16, "one more would be too many, one fewer too few"


def test_the_first_look_at_an_idle_file_closes_it_if_too_many_are_open() -> None:
    tail = Tail(40, max_open_files=16, close_idle_seconds=97)
    tail.rests(96)
    assert len(tail.open()) == 40
    tail.rests(2)
    assert len(tail.open()) == 16


@pytest.mark.parametrize("files", [16, 40])
def test_files_at_rest_are_not_opened_and_closed_in_turns(files: int) -> None:
    tail = Tail(files, max_open_files=16, close_idle_seconds=100)
    tail.rests(200)
    opened = tail.disk.opened
    assert opened >= files
    tail.rests(200)
    assert len(tail.open()) == 16
    assert tail.disk.opened == opened


def test_files_with_lines_to_read_are_not_closed_however_many_are_open() -> None:
    tail = Tail(40, max_open_files=16, close_idle_seconds=100)
    for _ in tail.passes(300):
        pass  # no connection reads
    assert len(tail.open()) == 40
    tail.rests(200)
    assert len(tail.open()) == 16


@pytest.mark.parametrize("set_aside", [0, 4096])
def test_files_without_a_line_give_their_handles_back_to_those_that_have_some__G1_P5(
    set_aside: int,
) -> None:
    tail = Tail(0, max_open_files=2, close_idle_seconds=5)
    paths = [f"/logs/{number}.log" for number in range(6)]
    for path in paths:
        tail.disk.open(path, write=True, create=True).close()
        if set_aside:
            tail.disk.set_aside(path, set_aside)
    tail.scans()
    tail.rests(30)
    assert len(tail.open()) == 2, "as many as may be, and no more"
    for path in reversed(paths):
        tail.disk.write(path, lines(0, 2))
        tail.rests(30)
    assert [tail.followed(path).generation.position for path in paths] == [len(lines(0, 2))] * 6
    assert len(tail.open()) == 2


def test_a_scan_looks_once_a_minute_at_files_that_are_followed_under_their_names() -> None:
    tail = Tail(20, max_open_files=16, close_idle_seconds=100)
    tail.rests(200)
    closed = set(tail.paths) - tail.open()
    assert len(closed) == 4
    assert tail.scans() == set(tail.paths)
    assert tail.scans() == closed, "another file may have got the inode of one that is not open"
    tail.clock.now += 61
    assert tail.scans() == set(tail.paths)


def test_a_scan_asks_of_a_closed_file_at_rest_only_whether_it_is_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tail = Tail(20, max_open_files=16, close_idle_seconds=100)
    tail.rests(200)
    monkeypatch.setattr(Tailer, "on_match", lambda *_: pytest.fail("it is as it was"))
    tail.scans()
    tail.clock.now += 61
    tail.scans()


def test_a_scan_finds_a_file_with_the_name_and_inode_of_a_closed_one__G1() -> None:
    tail = Tail(20, max_open_files=16, close_idle_seconds=100)
    tail.disk.reuses_inodes = True
    tail.rests(200)
    tail.scans()
    path = min({*tail.paths} - tail.open())
    closed = tail.followed(path)
    tail.disk.remove(path)
    tail.disk.sync()  # frees the inode
    tail.disk.write(path, lines(2, 2))
    assert tail.disk.stat(path).inode == closed.generation.place.inode
    tail.scans()
    assert closed.dropped
    assert tail.followed(path) is not closed


def test_a_scan_finds_what_came_under_a_name_that_is_known__G1() -> None:
    tail = Tail(3)
    tail.rests(20)
    tail.scans()
    rotated, fresh = tail.followed(tail.paths[0]), lines(5, 1)
    tail.disk.replace(tail.paths[0], "/logs/00000.log.1")
    tail.disk.write(tail.paths[0], fresh)
    assert tail.scans() == {tail.paths[0]}
    (new,) = [
        each
        for each in tail.tailer.followed.values()
        if each not in (rotated, *map(tail.followed, tail.paths[1:]))
    ]
    tail.rests(20)
    assert (new.generation.place.path, new.generation.position) == (tail.paths[0], len(fresh))
    assert rotated.generation.seen == len(lines(0, 2))


def test_a_file_is_looked_at_for_the_last_of_its_eight_answers_alone__G3(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepared = 0
    prepare = Tailer.verify_source

    def counted(tailer: Tailer, source: Source) -> bool:
        nonlocal prepared
        prepared += 1
        return prepare(tailer, source)

    monkeypatch.setattr(Tailer, "verify_source", counted)

    async def main() -> None:
        world = World()
        await world.ships(lines(0, 3))
        assert contents(world.stored()) == [lines(0, 3)]
        assert prepared == 1
        await world.stop()

    run(main())
