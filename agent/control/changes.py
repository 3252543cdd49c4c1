"""What operators do with a source: skip, resend, forget (rule A4). Each can be tried before."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import msgspec

from agent.control.finding import find_source, find_source_in_place
from agent.control.messages import (
    Change,
    ChangeRequest,
    ControlError,
    ForgetRequest,
    ResendRequest,
    SkipRequest,
)
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.rematch import Rematcher
from agent.inputs.files.restore import Restorer
from agent.inputs.files.start_position import find_last_line_end
from agent.inputs.files.tail import Tailer
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.incarnation_search import Counting
from agent.sources.paths import path_from_text, printable_path
from agent.sources.queue import SendQueue
from agent.sources.registration import SourceState
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.model.numbers import position_of


class SourceChanges:
    """Does what requests ask for; the session goes on with it."""

    def __init__(
        self,
        registry: SourceRegistry,
        send_queue: SendQueue,
        *,
        tailer: Tailer,
        restorer: Restorer,
        rematcher: Rematcher,
        disk: Disk,
        clock: Clock,
        log: Any,
    ) -> None:
        self._registry = registry
        self._send_queue = send_queue
        self._tailer = tailer
        self._restorer = restorer
        self._rematcher = rematcher
        self._disk = disk
        self._clock = clock
        self._log = log

    def change(self, request: ChangeRequest) -> Change:
        """Do what *request* asks for, or say what would be done. Raises `ControlError`."""
        match request:
            case SkipRequest():
                return self._skip(request)
            case ResendRequest():
                return self._resend(request)
            case ForgetRequest():
                return self._forget(request)
            case _:
                raise ControlError("not a change")

    # The changes ---------------------------------------------------------------------------------

    def _skip(self, request: SkipRequest) -> Change:
        source, generation, chosen = self._find_file(request, "skipped")
        self._settle(source)
        try:
            self._tailer.open_source(source)
            end = find_last_line_end(generation)
        except OSError as error:
            raise ControlError(
                f"{self._path(source)} can't be read: {os_error_text(error)}"
            ) from error
        # truncated since the last look, the file has the lines of its next life
        if not self._tailer.verify_source(source) or source.living is not generation:
            raise self._unreadable(source)

        sent, skipped = source.sent_position, source.skip_to
        begin = max(source.position, skipped)
        if end <= max(sent, skipped):
            raise ControlError(
                f"{self._path(source)}: there is no whole line that was not sent"
                + (
                    f": all that was seen is under way, up to {sent:,}, and is sent again if the "
                    "connection breaks"
                    if sent > begin
                    else ""
                )
            )
        # what is under way comes, unless the connection breaks
        under_way = (
            f"; those up to {sent:,} are under way, and most likely still come"
            if sent > begin
            else ""
        )
        text = (
            f"{end - begin:,} bytes of {self._path(source)}, from {begin:,} to {end:,}, are never "
            f"sent{under_way}: a gap record says what was left out, and the audit counts it as "
            f"skipped, not as lost{chosen}"
        )
        return self._do(
            request,
            Change(
                action="skip",
                path=self._path(source),
                origin=str(source.origin),
                start=begin,
                end=end,
                text=text,
            ),
            lambda: self._begin_skip(source, end),
        )

    def _begin_skip(self, source: Source, end: int) -> None:
        source.skip(end)
        self._registry.mark_changed()
        self._send_queue.enqueue(source, self._clock.monotonic())

    def _resend(self, request: ResendRequest) -> Change:
        source, generation, chosen = self._find_file(request, "sent again")
        if source.ending is not None:  # what replaced it has a source of its own, and the copy none
            raise ControlError(
                f"{self._path(source)} was truncated or removed, and is read to its end from a "
                "copy: it can't be sent again"
            )
        self._settle(source)
        path = self._path(source)
        twice = (
            f": what was sent before, up to {source.sent_position:,}, is then there twice, under "
            'two sources. The first ends as "resent", so the audit takes it for no duplicate'
            if source.sent_position
            else ""
        )
        text = (
            f"{path} is sent again from its beginning, {generation.seen:,} bytes so far{twice}"
            f"{chosen}"
        )
        return self._do(
            request,
            Change(
                action="resend",
                path=path,
                origin=str(source.origin),
                start=0,
                end=generation.seen,
                text=text,
            ),
            lambda: self._begin_resend(source),
        )

    def _begin_resend(self, source: Source) -> None:
        following = self._tailer.resend_source(source)
        if following is None:
            raise self._unreadable(source)
        # an agent that starts again and does not know that the first was ended to be sent again
        # would take it for complete, and never look for the other
        for one in (source, following):
            one.withheld = True
        self._registry.mark_changed()
        self._registry.call_after_write(partial(self._release, (source, following)))

    def _release(self, sources: Sequence[Source]) -> None:
        for source in sources:
            source.withheld = False
            self._send_queue.enqueue(source, self._clock.monotonic())

    def _forget(self, request: ForgetRequest) -> Change:
        found = find_source(
            self._registry, request.source, followed=self._tailer.followed, disk=self._disk
        )
        if isinstance(found, Source):
            return self._forget_out_of_sight(request, found)
        path, position = (
            printable_path(path_from_text(found.path)),
            max(0, position_of(found.number)),
        )
        seen = max(found.seen, position)
        if found.done is not None:
            text = (
                f"{path} has ended and is acknowledged: the checkpoint forgets it now, so it is "
                "not offered again if a receiver's store goes back in time"
            )
            change = _forgotten(path, found.origin, position, seen, text)
            return self._do(request, change, lambda: self._registry.drop_ended(found.origin))
        whole = self._restorer.has_all_of(found)
        text = _given_up(path, position, seen, whole=whole)
        return self._do(
            request,
            _forgotten(path, found.origin, position, seen, text),
            lambda: self._restorer.give_up_absent(found.origin, whole=whole),
        )

    def _forget_out_of_sight(self, request: ForgetRequest, source: Source) -> Change:
        """Give up a living source whose file no input would find again."""
        path, followed = self._path(source), self._find_followed(source)
        generation = followed.generation
        try:
            now = self._restorer.find_name(generation.place)
        except OSError as error:
            raise ControlError(f"{path} can't be looked for: {os_error_text(error)}") from error
        if now.named:
            raise ControlError(
                f"{printable_path(now.path)} is there and an input names it, so it would be found "
                "again: take it out of `paths`, reload, and forget it then; or leave out what it "
                "holds: `source skip`"
            )
        if generation.unnamed_since is not None:
            why = "was removed, and would end by itself once all of it is sent"
        else:
            where = printable_path(now.path) or "another place"
            why = f"was moved to {where}, which no input names"
        position, seen = source.position, max(generation.seen, source.position)
        whole = position == seen and generation.is_at_rest(self._disk)
        given_up = _given_up(path, position, seen, whole=whole)
        text = f"the file of {path} {why}; it is still read. {given_up}"
        return self._do(
            request,
            _forgotten(path, source.origin, position, seen, text),
            lambda: self._rematcher.let_go(
                followed, lambda gone: self._restorer.give_up_absent(gone.origin, whole=whole)
            ),
        )

    def _find_followed(self, source: Source) -> FollowedFile:
        """Return the file of a living source that may be given up. Raises `ControlError`."""
        path = self._path(source)
        if source.ended is not None:
            raise ControlError(
                f"{path} has ended, and its end record waits for a receiver: it is forgotten "
                "keep_ended_days after that has it"
            )
        if source.living is None or source.ending is not None:
            raise ControlError(
                f"{path} is gone, and its rest is read from a copy, or one is looked for: it ends "
                "by itself"
            )
        followed = None
        if isinstance(source.living, Generation):
            followed = self._tailer.followed_of(source)
        if followed is None:
            raise ControlError(
                f"{path} is no file that was moved or removed: it ends by itself once its input "
                "has ended, and all is sent"
            )
        return followed

    def _do(self, request: ChangeRequest, change: Change, action: Callable[[], None]) -> Change:
        if request.dry_run:
            return change
        action()
        self._log.info(
            f"operator: {change.action}",
            path=change.path,
            origin=change.origin,
            start=change.start,
            end=change.end,
        )
        return msgspec.structs.replace(change, done=True)

    # What may be changed --------------------------------------------------------------------------

    def _find_file(self, request: ChangeRequest, done: str) -> tuple[Source, Generation, str]:
        """Return the living source that *request* names, its file, and how it was chosen.

        The latter ends a sentence; it is "" where the name stands for one source alone.
        """
        found, chosen = find_source_in_place(
            self._registry, request.source, followed=self._tailer.followed, disk=self._disk
        )
        if isinstance(found, CheckpointEntry):
            why = f"has ended ({found.ended})" if found.ended else "is not read now"
            raise ControlError(
                f"{request.source} {why}, so it can't be {done}; `logdrive agent ship` sends a "
                "file that is still there"
            )
        generation = found.living
        if not isinstance(generation, Generation):
            raise ControlError(
                f"{self._path(found)} is no file that can be read again, so it can't be {done}"
            )
        return found, generation, chosen

    def _settle(self, source: Source) -> None:
        """Refuse a source of which it is not known yet what the store has."""
        settled = source.counting is Counting.KNOWN and not source.undecided
        if not settled or source.state is SourceState.ASKING:
            raise ControlError(
                f"{self._path(source)}: no receiver has said yet what it has of it: try again when "
                "it is connected"
            )

    def _unreadable(self, source: Source) -> ControlError:
        return ControlError(
            f"{self._path(source)} can't be read now, or was truncated: look at its problem in "
            "`logdrive agent status`"
        )

    def _path(self, source: Source) -> str:
        return printable_path(self._registry.path_of(source))


def _forgotten(path: str, origin: UUID, start: int, end: int, text: str) -> Change:
    return Change(action="forget", path=path, origin=str(origin), start=start, end=end, text=text)


def _given_up(path: str, position: int, seen: int, *, whole: bool) -> str:
    """Return what is said of a source with *position* bytes acknowledged of *seen*.

    It ends *whole* if its file has no more than those.
    """
    again = "If the file comes back under its name, it is sent from its beginning"
    if whole:
        return (
            f"{path} is given up: all of its {position:,} bytes are acknowledged, so the source "
            f"is complete. {again}"
        )
    return (
        f"{path} is given up: what of it was not acknowledged, {seen - position:,} bytes and what "
        f"may have come since, is a gap `forgotten`, which the audit counts as lost. {again}"
    )
