"""Formats on lines that real systems wrote: how many they read, and that none is changed."""

import csv
import io
import json
from pathlib import Path

import orjson
import pytest

from agent.config.formats import FormatName
from agent.events.event import Event
from tests.agent.events.formats.reading import events_of, read

TIME = "2026-01-02T03:04:05.678901234Z"
SHARES: dict[str, tuple[str, float]] = {
    "apache-access.log": ("access", 0.9998),
    "Linux.log": ("syslog", 1.0),
    "OpenSSH.log": ("syslog", 1.0),
}
"""Format that `auto` finds in a file, and the share of its lines that are read."""


def exact(event: Event) -> bytes:
    text = event.message.encode() if event.original is None else event.original
    return text + event.eol.encode()


def share(events: list[Event]) -> float:
    lines = [event for event in events if exact(event).strip()]
    return sum("error" not in event.fields and bool(event.fields) for event in lines) / len(lines)


def test_the_lines_of_servers_are_recognised(real_logs: list[Path]) -> None:
    found = {path.name: path for path in real_logs}
    for name, (form, least) in SHARES.items():
        events = read("auto", found[name].read_bytes())
        assert share(events) >= least, name
        assert events[-1].fields == read(form, found[name].read_bytes())[-1].fields, name


def test_lines_of_other_layouts_are_of_no_format_and_stay_as_they_are(
    real_logs: list[Path],
) -> None:
    others = [path for path in real_logs if path.name not in SHARES]
    assert others
    for path in others:
        data = path.read_bytes()
        events = read("auto", data)
        assert b"".join(map(exact, events)) == data
        assert share(events) < 0.01, path.name


def wrapped(form: str, line: str) -> str:
    """Return *line* as what a program writes that has it for a message."""
    match form:
        case "json":
            return orjson.dumps({"time": TIME, "level": "info", "msg": line}).decode()
        case "docker":
            return orjson.dumps({"log": line + "\n", "stream": "stdout", "time": TIME}).decode()
        case "cri":
            return f"{TIME} stdout F {line}"
        case "klog":
            return f"I0102 03:04:05.678901   12345 server.go:123] {line}"
        case "logfmt":
            return f"time={TIME} level=info msg={json.dumps(line, ensure_ascii=False)}"
        case "csv":
            text = io.StringIO()
            csv.writer(text, lineterminator="").writerow([TIME, "info", line])
            return text.getvalue()
        case _:
            return f'<165>1 {TIME[:-4]}Z host app 12 - [id@1 k="v"] {line}'


def message_in(form: str, event: Event) -> str:
    """Return the message that *wrapped* was given."""
    match form:
        case "docker" | "cri":
            return event.message
        case "csv":
            return str(event.fields["column"])
        case "json" | "logfmt":
            return str(event.fields["msg"])
        case _:
            return str(event.fields["content"])


FORMS: list[FormatName] = ["json", "docker", "cri", "klog", "logfmt", "csv", "syslog"]


@pytest.mark.parametrize("form", FORMS)
def test_real_lines_within_a_format_are_all_read_and_come_back(
    form: str, real_logs: list[Path]
) -> None:
    lines = [
        event.message
        for path in real_logs
        for event in events_of(path.read_bytes())[:400]
        if event.message and event.original is None
    ]
    # a line end within a line is two lines of any format
    lines = [line for line in lines if "\r" not in line]
    data = "\n".join(wrapped(form, line) for line in lines).encode() + b"\n"
    options = {"columns": ["time", "level", "column"]} if form == "csv" else {}
    events = read(form, data, **options)
    assert share(events) == 1.0
    assert [message_in(form, event) for event in events] == lines
    assert b"".join(map(exact, events)) == data
    if form != "csv":
        assert [event.fields for event in read("auto", data)] == [event.fields for event in events]
