"""Prints an audit: a table of sources, what is wrong, and the verdict in the last line."""

import sys
from collections.abc import Iterator

from rich.console import Console

from logdrive.pipeline.audit.audit import Verdict
from logdrive.pipeline.audit.copies import SENT_AGAIN, TWO_CLIENTS, CopiedSource
from logdrive.pipeline.audit.dead_letters import Dismissals, dismissals
from logdrive.pipeline.audit.source_list import as_markup, print_sources
from logdrive.pipeline.audit.sources import RESENT, SKIPPED, AuditedSource, Gap
from logdrive.pipeline.audit.verify_rows import Fault
from logdrive.pipeline.bronze.removed import RemovedPart

_WHY = {
    TWO_CLIENTS: (
        "two client identities sent one file (a clone with a certificate of its own, or a "
        "certificate with a new name)"
    ),
    SENT_AGAIN: (
        "its agent found another writer with the same source id (a clone, or a host restored from "
        "a snapshot)"
    ),
}
_UNSEEN = {
    "removed": "removed while {their} agent was away",
    "truncated": "truncated, perhaps before {they} read to the end",
    "out_of_sight": (
        "removed, or moved out of the agent's sight, while {their} agent had no handle on {them} "
        "(max_open_files, ulimit -n)"
    ),
    "let_go": (
        "deleted, and closed before {they} read to the end (keep_removed_days, keep_removed_bytes)"
    ),
    "forgotten": "an operator gave {them} up",
    "unsure": "{their} agent was away, and can't know whether {they} truncated meanwhile",
}


def print_verdict(verdict: Verdict, *, allow_unknown_ends: bool = False) -> None:
    """Print *verdict* on standard output.

    With *allow_unknown_ends* the last line says "complete" also if only ends of files are unknown.
    """
    is_terminal = sys.stdout.isatty()
    # in a file or a pipe, programs look for whole lines
    console = Console(highlight=False, soft_wrap=not is_terminal)
    if verdict.by_source:
        print_sources(console, verdict.by_source, is_terminal=is_terminal)
    for gap in verdict.gaps:
        console.print(as_markup(_gap(gap)))
    for source in verdict.by_source:
        if not source.foreign and source.complete_to < source.last:
            console.print(as_markup(_complete_part(source)))
    for part in verdict.removed:
        console.print(as_markup(_removed_part(part)))
    for copy in verdict.copies:
        console.print(as_markup(_copy(copy)))
    for one in dismissals(verdict.letters):
        console.print(as_markup(dismissal(one)))
    for file in verdict.unreadable:
        console.print(as_markup(file.text))
    for faults in _following(verdict.faults):
        console.print(as_markup(_fault(faults)))
    for count, noun, text in (
        (verdict.quarantined_events, "event", "quarantined, and no line: see the column flag"),
        (verdict.overlapping_events, "event", "whole though a part had come before"),
        (
            verdict.uncommitted_rows,
            "row",
            "in a commit that is half done: the next run finishes it",
        ),
    ):
        if count:
            console.print(f"{count:,} {noun if count == 1 else noun + 's'} {text}")
    # not by the console, which would wrap the line that programs read
    print(verdict_line(verdict, allow_unknown_ends=allow_unknown_ends))


def verdict_line(verdict: Verdict, *, allow_unknown_ends: bool = False) -> str:
    """Return the verdict in one line.

    The figures have a fixed format, which programs may rely on. Remarks on what they don't cover
    follow, each after a semicolon.
    """
    if not verdict.sources:
        nothing = (
            f"{verdict.events:,} records name no source"
            if verdict.events
            else "no batch has been read yet"
        )
        return "; ".join([f"nothing to judge: {nothing}", *_removed(verdict)])
    figures = (
        f"{verdict.lines:,} lines, {verdict.bytes:,} bytes, {verdict.sources:,} sources, "
        f"{verdict.lost_bytes:,} bytes lost, {verdict.duplicate_events:,} lines duplicated"
    )
    judgement = _judgement(verdict, allow_unknown_ends)
    return "; ".join([f"{judgement}: {figures}", *_not_asked(verdict), *_remarks(verdict)])


def _judgement(verdict: Verdict, allow_unknown_ends: bool) -> str:
    complete = "complete" if verdict.begins is None else f"complete from {verdict.begins} on"
    if verdict.complete_but_for_ends and allow_unknown_ends:
        return f"{complete} but for {_counted(len(verdict.unknown_ends), 'unknown end')}"
    return complete if verdict.complete else "NOT COMPLETE"


def _remarks(verdict: Verdict) -> Iterator[str]:
    """Yield remarks on what the figures don't cover: first what keeps it from being complete."""
    yield from _removed(verdict)
    if verdict.unknown_ends:
        yield _unknown_ends(verdict)
    yield from _damages(verdict)
    if verdict.dead_letters:
        letters, size = (
            _counted(verdict.dead_letters, "event"),
            f"{verdict.dead_letter_bytes:,} bytes",
        )
        yield (
            f"{letters} of foreign peers ({size}) went to the dead letters and are in no row: "
            "see `logdrive store dead-letters`"
        )
    if verdict.rows - verdict.lines > verdict.quarantined_events:
        yield f"{verdict.rows:,} rows: long lines are in several"
    if verdict.skipped_bytes:
        yield f"{_counted(verdict.skipped_bytes, 'byte')} left out by rules of the agents"
    if verdict.redacted_events:
        yield f"{_counted(verdict.redacted_events, 'event')} redacted by rules of the agents"
    for erasure in verdict.erasures:
        yield f"{_counted(erasure.rows, 'row')} of these erased {erasure.who}"
    if verdict.unfinished_erasure is not None:
        one = verdict.unfinished_erasure
        yield (
            f"AN ERASURE OF {_counted(one.rows, 'row')} {one.who} is not finished, and tables may "
            "still have them: unless it runs now, run `logdrive pipeline erase` again"
        )
    if verdict.dismissed_dead_letters:
        yield f"{_counted(verdict.dismissed_dead_letters, 'dead letter')} dismissed"
    if verdict.copies:
        files = _counted(len(verdict.copies), "file")
        yield (
            f"the first lines of {files} are there under two sources: a clone, a restored "
            "host, or a certificate with a new name"
        )
    yield from _done_by_operators(verdict)
    heard = [source for source in verdict.by_source if source.is_open and source.heard]
    if verdict.open_sources:
        oldest = (
            min(heard, key=lambda source: source.heard).heard_at if heard else "an unknown time"
        )
        sources = _counted(verdict.open_sources, "source")
        yield f"{sources} open, the longest silent since {oldest}"
    if verdict.foreign_events:
        foreign = sum(source.lines for source in verdict.by_source if source.foreign)
        yield f"{_counted(foreign, 'line')} of foreign peers are not judged (at least once)"


def _damages(verdict: Verdict) -> Iterator[str]:
    if verdict.unreadable:
        yield (
            f"{_counted(len(verdict.unreadable), 'file')} of the tables can't be read: the rows "
            "there are counted as lost"
        )
    if verdict.faults:
        missing = (
            f", {_counted(verdict.lost_events, 'line')} missing" if verdict.lost_events else ""
        )
        yield (
            f"{_counted(len(verdict.faults), 'batch', 'batches')} whose rows do not match the "
            f"header{missing}"
        )


def _not_asked(verdict: Verdict) -> Iterator[str]:
    """Yield what tables that begin at a time lack before it."""
    if verdict.begins is None:
        return
    remark = f"what was received before {verdict.begins} was not asked for"
    parted = sum(bool(source.not_asked_bytes) for source in verdict.by_source)
    if parted:
        size = _counted(verdict.not_asked_bytes, "byte")
        remark += f", {size} of {_counted(parted, 'source')} among it"
    yield f"{remark}: see `logdrive pipeline backfill`"


def _done_by_operators(verdict: Verdict) -> Iterator[str]:
    """Yield what was sent again, or not at all, on purpose (rule A4)."""
    if again := sum(source.ended == RESENT for source in verdict.by_source):
        yield (
            f"{_counted(again, 'source')} sent again on purpose: what was sent of it before is "
            "there twice"
        )
    skipped = [gap for gap in verdict.gaps if gap.reason == SKIPPED]
    if skipped:
        size = sum(gap.end - gap.start for gap in skipped)
        files = _counted(len({gap.source for gap in skipped}), "file")
        yield f"{size:,} bytes of {files} skipped on purpose"


def _removed(verdict: Verdict) -> Iterator[str]:
    """Yield how much of the stream no row has."""
    for count, what in (
        (verdict.removed_bytes, "stored byte"),
        (verdict.removed_records, "stored record"),
    ):
        if count:
            were = "was removed before it was" if count == 1 else "were removed before they were"
            yield f"{_counted(count, what)} of the stream {were} read"


def _removed_part(part: RemovedPart) -> str:
    return (
        f"{part.segment}: the {part.unit} from {part.start:,} to {part.end:,} were removed before "
        "they were read"
    )


def _unknown_ends(verdict: Verdict) -> str:
    ends, single = verdict.unknown_ends, len(verdict.unknown_ends) == 1
    remark = (
        f"the end of {_counted(len(ends), 'file')} was not seen: "
        f"{' or '.join(sorted({_unseen(end.reason, one=single) for end in ends}))}"
    )
    # where bytes before the end are lost, "complete" would be wrong
    names = {end.source for end in ends}
    if any(source.lost_bytes for source in verdict.by_source if source.source in names):
        return remark
    return (
        f"{remark}; up to "
        f"{f'{ends[0].position:,} it is' if single else 'where they were last seen they are'} "
        "complete"
    )


def _unseen(reason: str, *, one: bool) -> str:
    return _UNSEEN.get(reason, reason).format(
        their="its" if one else "their",
        they="it was" if one else "they were",
        them="it" if one else "them",
    )


def _gap(gap: Gap) -> str:
    name = gap.path or gap.source
    if gap.end_unseen and gap.start == gap.end:
        return (
            f"the end of {name} was not seen, it had {gap.end:,} bytes before: "
            f"{_unseen(gap.reason, one=True)}"
        )
    length = f"{gap.lost_bytes:,} bytes lost" if gap.lost_bytes else "not lost"
    return (
        f"gap [{gap.start:,}, {gap.end:,}) of {name}: {gap.reason}, "
        f"{length}{', its end was not seen' if gap.end_unseen else ''}"
    )


def _complete_part(source: AuditedSource) -> str:
    since = f", received by {source.complete_at}" if source.complete_at else ""
    name = f"{source.path} (source {source.source})" if source.path else source.source
    where = f"from {source.complete_from:,} to" if source.complete_from else "up to"
    return f"{name} is complete {where} {source.complete_to:,} of {source.last:,} bytes{since}"


def _following(faults: list[Fault]) -> Iterator[list[Fault]]:
    """Yield *faults* in groups that are alike and follow one another in a file: a client may send
    lies of a line each.
    """
    group: list[Fault] = []
    for fault in faults:
        if group and (fault.source, fault.what, fault.previous) != (
            group[-1].source,
            group[-1].what,
            # without positions none follows another
            group[-1].position or -1,
        ):
            yield group
            group = []
        group.append(fault)
    if group:
        yield group


def _fault(faults: list[Fault]) -> str:
    """Return the line about *faults*, which follow one another in a file."""
    fault, last = faults[0], faults[-1]
    place = (
        ""
        if fault.previous is None or last.position is None
        else f", bytes [{fault.previous:,}, {last.position:,})"
    )
    batches = f"batch {fault.batch}" if fault is last else f"{len(faults):,} batches"
    source = f" (source {fault.source})" if fault.path and fault.source else ""
    found, expected = sum(one.found for one in faults), sum(one.expected for one in faults)
    # of a pack that can't be opened, the one row says nothing, and why does
    reason = (
        f" ({found:,} of {expected:,} rows)"
        if fault.reason is None
        else f": {fault.reason}"
        if all(one.reason == fault.reason for one in faults)
        else f", the first: {fault.reason}"
    )
    return f"{batches} of {fault.path or fault.source or '?'}{source}{place}: {fault.what}{reason}"


def _copy(copy: CopiedSource) -> str:
    name, lines = copy.path or copy.source, f"{_counted(copy.lines, 'line')} ({copy.bytes:,} bytes)"
    return (
        f"the first {lines} of {name} are there twice, as {copy.source} and as {copy.other}: "
        f"{_WHY.get(copy.why, copy.why)}"
    )


def dismissal(one: Dismissals) -> str:
    """Return the line about dead letters that were dismissed together: by whom, when and why."""
    letters = f"{_counted(one.letters, 'dead letter')} ({one.bytes:,} bytes) dismissed"
    return f"{letters} by {one.by or '?'} at {one.at}: {one.why or '?'}"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
