"""Prints what `agent check --sample` found: the steps, and events before and after each."""

from collections.abc import Iterator
from typing import Final

import click
import orjson

from agent.sample import EventShown, SampledEvent, SampleReport, SampleStep
from logdrive.printable import escape_unprintable

_MOST_CHARACTERS: Final = 2_000
"""Limit on a text that is shown."""


def print_sample(report: SampleReport, most_events: int) -> None:
    """Print *report*, with the first *most_events* events that are no lines, or that a step changed
    or dropped.
    """
    for line in sample_lines(report, most_events):
        click.echo(line)


def sample_lines(report: SampleReport, most_events: int) -> Iterator[str]:
    """Yield the lines of *report*; see `print_sample`."""
    yield (
        f"{report.file} as {report.input}: {report.bytes:,} bytes, {len(report.events):,} events, "
        f"of which {report.sent:,} would be sent"
    )
    if not report.plain:
        yield f"  cut: {_cut_summary(report)}"
    elif not report.steps:
        yield "  nothing looks at them: they are sent as they are"
    for step in report.steps:
        yield f"  {step.step}: {_summary(step)}"

    changed = [event for event in report.events if event.changes or not event.is_line]
    for event in changed[:most_events]:
        yield ""
        yield from _event_lines(event)
    if len(changed) > most_events:
        yield ""
        yield f"{len(changed) - most_events:,} more events were changed or dropped"


def _cut_summary(report: SampleReport) -> str:
    """Return what is not as it would be if each line were an event."""
    several = sum("\n" in event.cut.message for event in report.events)
    cut = [event.left_out for event in report.events if event.left_out]
    parts = [f"{len(report.events):,} events"]
    if several:
        parts.append(f"{several:,} of several lines")
    if cut:
        parts.append(f"{len(cut):,} over the limit ({sum(cut):,} bytes left out)")
    return ", ".join(parts)


def _summary(step: SampleStep) -> str:
    parts = [f"{step.events:,} events"]
    if step.changed:
        parts.append(f"{step.changed:,} changed")
    if step.dropped:
        parts.append(f"{step.dropped:,} dropped ({step.dropped_bytes:,} bytes)")
    if step.unread:
        parts.append(f"{step.unread:,} of another form")
    elif not step.changed and not step.dropped:
        parts.append("none changed")
    parts += [
        f"{rule.rule} {rule.matches:,} times in {rule.events:,} events"
        for rule in step.rules
        if rule.matches
    ]
    return ", ".join(parts)


def _event_lines(event: SampledEvent) -> Iterator[str]:
    yield f"bytes {event.start:,} to {event.end:,}: {_text(event.cut.message)}"
    if event.cut.flags:
        yield f"    flags {', '.join(event.cut.flags)}"
    before = event.cut
    for change in event.changes:
        if change.after is None:
            yield f"  {change.step}: dropped"
            return
        yield f"  {change.step}:"
        for name, text in _differences(before, change.after):
            yield f"    {name} {text}"
        before = change.after


def _differences(before: EventShown, after: EventShown) -> Iterator[tuple[str, str]]:
    """Yield the name of each part of an event that changed, and what it is now."""
    if after.message != before.message:
        yield "message", _text(after.message)
    if after.fields != before.fields:
        yield "fields", _text(orjson.dumps(after.fields).decode())
    if after.flags != before.flags:
        yield "flags", ", ".join(after.flags)


def _text(text: str) -> str:
    cut = text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}…"
    return escape_unprintable(cut)
