"""Compressed files: surveyed whole, one after the other, and then read on, or left alone (rule G5).

Theory of operation. A compressed file is looked at once its plain sibling is gone. A survey unpacks
all of it, a step at a time, and compares it with the generations that have its first line:

| the survey says                                  | then                                       |
|--------------------------------------------------|--------------------------------------------|
| it has what a source that is looked for lacks    | the source is read on from it              |
| all of it was read, or is in a living file       | it is settled                              |
| its trailer is missing                           | it is surveyed again when it has changed;  |
|                                                  | after a minute it counts as damaged        |
| it is damaged                                    | a warning, and a gap if nothing of it is   |
|                                                  | known                                      |
| nothing of it is known                           | a source of its own, or a gap `not_wanted` |

What is unknown is sent if it was changed since the last scan of the run before, or since the start
where the clock was set back: then no agent can have read it. While a run drains, it does not scan.
Else `unknown_compressed` decides.
"""

import asyncio
import contextlib
import os
from typing import Final

from agent.config.files import InputTable
from agent.inputs.files.compressed.codecs import DamagedError, IncompleteError
from agent.inputs.files.compressed.generation import CompressedGeneration
from agent.inputs.files.compressed.jobs import SurveyJob
from agent.inputs.files.compressed.unpacked import Survey, Surveyor
from agent.inputs.files.copies.awaited import AwaitedRest
from agent.inputs.files.copies.copies import Copies
from agent.inputs.files.copies.judge import REST_SECONDS, CopyVerdict, Judgement, Suspect
from agent.inputs.files.copies.settled import stamp_of
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.paths.file_locations import FileLocations
from agent.inputs.files.paths.globs import MatchedFile
from agent.inputs.files.paths.suffixes import suffix_of
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter, FirstLine
from agent.sources.incarnation_search import Counting
from agent.sources.place import FileKey, FileLocation
from agent.sources.queue import SendQueue
from agent.sources.readable import SourceTruncatedError
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk, FileStat
from logdrive.model.numbers import position_of
from logdrive.records.runs import DAMAGED, NOT_WANTED, SHIPPED, GapOrEndMark

_RETRY_SECONDS: Final = 2.0
"""Seconds between two looks at a file that is not complete."""
_CUT_SECONDS: Final = 60.0
"""Seconds without a change after which a file without a trailer counts as cut."""
_NOTHING: Final = FirstLine(b"", 0, 0)
"""First line of a file of which nothing could be unpacked."""


class CompressedFiles:
    """Surveys compressed files, and moves forward in those that are read."""

    def __init__(
        self,
        registry: SourceRegistry,
        send_queue: SendQueue,
        copies: Copies,
        *,
        fingerprinter: Fingerprinter,
        locations: FileLocations,
        disk: Disk,
        clock: Clock,
        file_log: FileLog,
    ) -> None:
        self._registry = registry
        self._send_queue = send_queue
        self._copies = copies
        self._fingerprinter = fingerprinter
        self._locations = locations
        self._disk = disk
        self._clock = clock
        self._file_log = file_log
        self._jobs: dict[FileKey, SurveyJob] = {}
        self._seeking: dict[CompressedGeneration, Source] = {}
        self._work = asyncio.Event()
        # files changed before were there in an earlier run, or before this one: in the millisecond
        # that has begun, too (ms)
        self._known_since_ms = clock.now_ms() + 1

    def set_last_run(self, scanned_ms: int) -> None:
        """Note when the run before looked last: what was changed since, no agent has read.

        A clock that was set back since may leave that in the future, where all that comes would
        count as known: then it is what was changed since this start.
        """
        self._known_since_ms = min(scanned_ms, self._known_since_ms)

    @property
    def is_busy(self) -> bool:
        """Whether files wait to be surveyed."""
        return bool(self._jobs)

    def add_match(self, match: MatchedFile, counting: Counting) -> None:
        """Survey a file that an input matches, unless it is known. Called for each in each scan."""
        stat = match.stat
        if self._copies.is_settled(match.path, stat) or self._copies.is_followed(stat):
            return
        if not self._has_plain_sibling(match.path):
            job = self._add_job(match.path, stat, match.settings)
            job.match, job.counting = match, counting

    def _add_job(self, path: str, stat: FileStat, settings: InputTable) -> SurveyJob:
        """Return the job for a file, a new one if there is none."""
        key = stat.device, stat.inode
        job = self._jobs.get(key)
        if job is None:
            job = self._jobs[key] = SurveyJob(
                path, stat, self._clock.monotonic(), settings.line_end_bytes
            )
            self._work.set()
        job.path = path
        return job

    def _has_plain_sibling(self, path: str) -> bool:
        try:
            self._disk.stat(path.removesuffix(suffix_of(path)))
        except OSError:
            return False
        return True

    def try_candidate(self, awaited: AwaitedRest, path: str, now: float) -> None:
        """Survey the file *path* if it may have the rest of *awaited*. Raises OSError."""
        stat = self._disk.stat(path)
        stamp = stamp_of(stat)
        if not stat.is_file or stamp in awaited.surveyed or self._copies.is_followed(stat):
            return
        # a file that can't be read gets no job, which would say each time that it has just come
        self._disk.open(path).close()
        job = self._add_job(path, stat, awaited.settings)
        job.sought = True
        job.note_stat(stat, now)
        if now - job.since < REST_SECONDS:
            awaited.wait_longer(now)

    def seek(self, generation: CompressedGeneration, source: Source) -> None:
        """Unpack up to where *source* is read on; then it is enqueued."""
        self._seeking[generation] = source
        self._work.set()

    async def run(self) -> None:
        """Survey and seek until cancelled. Takes at most half of one core."""
        while True:
            self._work.clear()
            for generation, source in list(self._seeking.items()):
                await self._seek(generation, source)
            now = self._clock.monotonic()
            for job in [job for job in self._jobs.values() if job.retry_at <= now]:
                await self._survey(job)
            await self._wait()

    async def _wait(self) -> None:
        """Wait for work, or until a job is due."""
        if self._seeking:
            return
        due = min((job.retry_at for job in self._jobs.values()), default=None)
        wait = None if due is None else max(0.0, due - self._clock.monotonic())
        try:
            async with asyncio.timeout(wait):
                await self._work.wait()
        except TimeoutError:
            return

    async def _rest(self, began: float) -> None:
        """Let others run for as long as a step took that *began* then."""
        await self._clock.sleep(self._clock.monotonic() - began)

    async def _seek(self, generation: CompressedGeneration, source: Source) -> None:
        ready = False
        while not ready:
            began, unpacked = self._clock.monotonic(), generation.unpacked
            if unpacked is None or source.generation is not generation:
                break
            try:
                ready = unpacked.advance()
            except (DamagedError, IncompleteError, OSError):
                ready = True  # the next read raises it again
            await self._rest(began)
        del self._seeking[generation]
        if source.has_more:
            self._send_queue.enqueue(source, self._clock.monotonic())

    async def _survey(self, job: SurveyJob) -> None:
        """Survey one file, and do what follows; it is tried again later if it is not complete."""
        now = self._clock.monotonic()
        job.retry_at = now + _RETRY_SECONDS
        try:
            stat = self._disk.stat(job.path)
            job.note_stat(stat, now)
            wanted = job.sought or not self._has_plain_sibling(job.path)
            if not stat.is_file or job.key not in self._jobs or not wanted:
                self._jobs.pop(job.key, None)
                return
            survey, problem = await self._unpack(job)
            if stamp_of(self._disk.stat(job.path)) != stamp_of(stat):
                return  # changed meanwhile
        except OSError as error:
            self._jobs.pop(job.key, None)  # a scan finds it again
            self._copies.await_unreadable(job.path, error)
            self._file_log.warning("file can't be read", job.path, reason=os_error_text(error))
            return
        if not survey.complete and not problem:
            if self._clock.monotonic() - job.since < _CUT_SECONDS:
                return
            problem = "it ends before its trailer"
        self._decide(job, survey, problem)

    async def _unpack(self, job: SurveyJob) -> tuple[Survey, str]:
        """Return the survey of a file, and what is damaged. Raises OSError."""
        with contextlib.closing(self._disk.open(job.path)) as file:
            surveyor = Surveyor(
                file,
                suffix_of(job.path),
                job.line_end,
                lambda survey, line: self._copies.recognizer.positions_like(job.path, survey, line),
            )
            try:
                ready = False
                while not ready:
                    began = self._clock.monotonic()
                    ready = surveyor.advance()
                    await self._rest(began)
            except IncompleteError:
                return surveyor.stop(), ""
            except DamagedError as error:
                return surveyor.stop(), str(error)
        return surveyor.survey, ""

    def _decide(self, job: SurveyJob, survey: Survey, problem: str) -> None:
        """Do what follows from a survey of all that can be unpacked, or wait for the next one."""
        first_line = survey.first_line
        judged = self._judge(job, survey)
        if judged is None:
            return

        if not problem and judged.verdict in (CopyVerdict.REST, CopyVerdict.MOVED):
            assert first_line is not None
            try:
                self._read_on(job, survey, first_line, judged)
            except SourceTruncatedError:
                return  # it was changed: again later
            except OSError as error:
                self._copies.await_unreadable(job.path, error)
                return
            self._jobs.pop(job.key, None)
            return

        self._jobs.pop(job.key, None)
        self._copies.note_surveyed(stamp_of(job.stat))
        if problem:
            self._file_log.warning("compressed file is damaged", job.path, reason=problem)
            if judged.life is None:
                self._record_damage(job, survey)
            self._copies.settled.add(job.stat)
        elif first_line is None or judged.verdict is CopyVerdict.COPY:
            self._copies.on_copy(judged, job.path, job.stat)
        elif self._had_source(job, survey, first_line):
            self._copies.settled.add(job.stat)
        elif job.match is not None and not self._has_plain_sibling(job.path):
            self._add_own(job, job.match, survey, first_line, judged.start)

    def _judge(self, job: SurveyJob, survey: Survey) -> Judgement | None:
        """Return what a file is; None where that can't be said yet."""
        first_line, judged = survey.first_line, Judgement(CopyVerdict.NEW)
        try:
            if first_line is not None:
                suspect = Suspect(job.path, survey, rests=True)
                if not self._copies.look_at_living(suspect, first_line):
                    return None
                judged = self._copies.recognizer.judge_unpacked(job.path, survey, first_line)
                came_late = job.match is not None and not job.match.at_start
                is_unknown = judged.life is None and (came_late or self._is_new(job))
                if is_unknown and self._copies.finds_unread(job.path, first_line):
                    return None
        except OSError:
            return None  # a living file can't be read
        # a source has moved on meanwhile, or can't be compared now
        if survey.unknown or judged.verdict is CopyVerdict.HELD:
            self._copies.await_longer(judged)
            return None
        return judged

    def _had_source(self, job: SurveyJob, survey: Survey, first_line: FirstLine) -> bool:
        """Return whether a file had a source of its own, which has ended with nothing left to send.

        By its inode: it may have been renamed while no input named it.
        """
        return any(
            entry.ended in (SHIPPED, NOT_WANTED)
            and (entry.inode, entry.birth_ns) == (job.stat.inode, job.stat.birth_ns)
            and (entry.span, entry.crc) == (first_line.span, first_line.crc)
            and position_of(entry.number) == survey.size
            for entry in self._registry.ended.values()
        )

    def _is_new(self, job: SurveyJob) -> bool:
        """Return whether a file was changed since the run before looked for files last."""
        return job.stat.modified_ns >= self._known_since_ms * 1_000_000

    def _read_on(
        self, job: SurveyJob, survey: Survey, first_line: FirstLine, judged: Judgement
    ) -> None:
        """Read the source that is looked for on from a file."""
        assert judged.life is not None
        assert judged.life.source is not None
        awaited = self._copies.awaited_for(judged.life.source)
        if awaited is None:
            return
        name = self._disk.real_path(job.path)
        place = FileLocation(
            awaited.path,
            name,
            self._fingerprinter.mount_of(os.path.dirname(name)),
            job.stat.device,
            job.stat.inode,
            job.stat.birth_ns,
        )
        start = self._registry.start_of(awaited.source)
        generation = CompressedGeneration(
            place,
            awaited.settings,
            stat=job.stat,
            survey=survey,
            first_line=first_line,
            start=start,
        )
        self._copies.take_over(awaited, generation, moved=False)

    def _add_own(
        self,
        job: SurveyJob,
        match: MatchedFile,
        survey: Survey,
        first_line: FirstLine,
        start: int,
    ) -> None:
        """Make a source of a file of which nothing is known: it is sent, or its gap is."""
        generation, source = self._make_source(job, match, survey, first_line, start)
        if not start and not self._is_new(job) and match.settings.unknown_compressed == "skip":
            self._file_log.warning(
                "unknown compressed file is not sent",
                job.path,
                remedy='unpack it and run "logdrive agent ship" on that, if it is wanted; where '
                'unknown_compressed = "ship" is set before it is found, it is sent',
            )
            generation.retire()
            mark = GapOrEndMark(NOT_WANTED)
            source.end_generation_at(mark, survey.size, survey.size, self._clock.now_ms())
        else:
            source.await_copy(GapOrEndMark(SHIPPED))
            self._copies.follow(
                FollowedFile(
                    generation, source, counting=job.counting, ending=GapOrEndMark(SHIPPED)
                )
            )
        # in the same checkpoint as the source, whose end may be in one before the file is left
        self._copies.settled.add(job.stat)
        self._registry.mark_changed()
        self._send_queue.enqueue(source, self._clock.monotonic())

    def _record_damage(self, job: SurveyJob, survey: Survey) -> None:
        """Tell of a damaged file of which nothing is known: a gap without a sure end."""
        if job.match is None:
            return
        first_line = survey.first_line or _NOTHING
        generation, source = self._make_source(job, job.match, survey, first_line, 0)
        generation.retire()
        mark = GapOrEndMark(DAMAGED, exact=False)
        source.end_generation_at(mark, 0, survey.size, self._clock.now_ms())
        self._registry.mark_changed()
        self._send_queue.enqueue(source, self._clock.monotonic())

    def _make_source(
        self,
        job: SurveyJob,
        match: MatchedFile,
        survey: Survey,
        first_line: FirstLine,
        start: int,
    ) -> tuple[CompressedGeneration, Source]:
        place = self._locations.locate_match(match)
        generation = CompressedGeneration(
            place, match.settings, stat=job.stat, survey=survey, first_line=first_line, start=start
        )
        identity = self._fingerprinter.identify(job.stat, place, first_line)
        source = self._registry.add_generation(
            generation, identity, job.counting, closes_when_complete=True
        )
        return generation, source
