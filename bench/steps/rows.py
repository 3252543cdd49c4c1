"""What is done with lines, in logdrive's words and in Filebeat's, and lines to do it with."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Line = Callable[[int, str], str]
"""Makes a line, or several, of a number and a line of `bench.lines`, without the last newline."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of lines and what is done with them."""

    title: str
    """What it is."""

    line: Line
    """Makes the lines."""

    agent: str
    """Keys of the agent's input, TOML."""

    filebeat: dict[str, Any] | None
    """Keys of Filebeat's input; None where it has nothing like it."""


def _same(_number: int, line: str) -> str:
    return line


def _clock(number: int) -> str:
    return (
        f"{number // 3600000 % 24:02}:{number // 60000 % 60:02}:"
        f"{number // 1000 % 60:02}.{number % 1000:03}"
    )


def _json(number: int, line: str) -> str:
    values = {
        "time": f"2025-11-21T{_clock(number)}Z",
        "level": "INFO",
        "logger": "com.example.shop.Orders",
        "msg": line[:80],
        "trace": f"{number:016x}",
        "duration_ms": number % 997 / 10,
        "user": {"id": number % 1009, "name": f"u{number % 97}"},
    }
    return json.dumps(values, separators=(",", ":"))


def _logfmt(number: int, line: str) -> str:
    return (
        f'time=2025-11-21T{_clock(number)}Z level=info msg="{line[:60].replace(chr(34), "")}" '
        f"trace={number:016x} status=200 duration=1.5ms user=u{number % 97}"
    )


def _csv(number: int, line: str) -> str:
    text = line[:60].replace('"', '""')
    return f'2025-11-21T{_clock(number)}Z,INFO,{number},"{text}",200,{number % 997}'


def _syslog(number: int, line: str) -> str:
    return (
        f"<34>1 2025-11-21T{_clock(number)}Z web-1 shop {number % 32768} ID47 "
        f'[request id="{number}" user="u{number % 97}"] {line[:100]}'
    )


def _docker(number: int, line: str) -> str:
    values = {"log": f"{line}\n", "stream": "stdout", "time": f"2025-11-21T{_clock(number)}000000Z"}
    return json.dumps(values, separators=(",", ":"))


def _cri(number: int, line: str) -> str:
    return f"2025-11-21T{_clock(number)}000000Z stdout F {line}"


def _klog(number: int, line: str) -> str:
    return (
        f"I1121 {_clock(number)}000 {number % 32768:7} controller.go:{number % 997}] {line[:100]}"
    )


def _trace(number: int, line: str) -> str:
    # an event of eight lines, every eighth time
    if number % 8:
        return f"2025-11-21 {_clock(number)} INFO {line[:100]}"
    frames = "\n".join(f"\tat com.example.shop.Cart.add{n}(Cart.java:{n})" for n in range(6))
    return (
        f"2025-11-21 {_clock(number)} ERROR {line[:60]}\n"
        f"java.lang.IllegalStateException: no\n{frames}"
    )


def _mail(number: int, line: str) -> str:
    return f"{line} u{number % 97}@example.org" if number % 10 == 0 else line


_ACCESS: Final = (
    '%{client} %{ident} %{user} [%{time}] "%{verb} %{path} %{version}" %{status} %{size} '
    '"%{referer}" "%{agent}"'
)
_ADDED: Final = '{ add = { team = "shop" } }'


def _processors(*processors: dict[str, Any]) -> dict[str, Any]:
    return {"processors": list(processors)}


ROWS: Final[Mapping[str, Row]] = {
    "plain": Row("lines as they are", _same, "", {}),
    "exclude": Row(
        "lines by a pattern",
        _same,
        "processor = [{ exclude = { pattern = '\" (404|500) ' } }]",
        {"exclude_lines": ['" (404|500) ']},
    ),
    "redact": Row(
        "cards, tokens and e-mail addresses, of which one line in ten has one",
        _mail,
        'processor = [{ redact = { presets = ["card", "token", "email"] } }]',
        None,
    ),
    "add": Row(
        "a field added to plain lines",
        _same,
        f"processor = [{_ADDED}]",
        _processors({"add_fields": {"target": "", "fields": {"team": "shop"}}}),
    ),
    "fields": Row(
        "JSON, a field renamed, one dropped, one added",
        _json,
        'format = "json"\n'
        "processor = [{ rename = { level = 'log.level' } }, { drop = ['user.name'] }, "
        f"{_ADDED}]",
        {"parsers": [{"ndjson": {"target": ""}}]}
        | _processors(
            {"rename": {"fields": [{"from": "level", "to": "log.level"}]}},
            {"drop_fields": {"fields": ["user.name"], "ignore_missing": True}},
            {"add_fields": {"target": "", "fields": {"team": "shop"}}},
        ),
    ),
    "multiline": Row(
        "Java's stack traces",
        _trace,
        "multiline = { preset = 'java', max_seconds = 0.5 }",
        {
            "parsers": [
                {
                    "multiline": {
                        "type": "pattern",
                        "pattern": r"^\s|^Caused by:|^java\.",
                        "negate": False,
                        "match": "after",
                        "timeout": "0.5s",
                    }
                }
            ]
        },
    ),
    "json": Row("format json", _json, 'format = "json"', {"parsers": [{"ndjson": {"target": ""}}]}),
    "logfmt": Row("format logfmt", _logfmt, 'format = "logfmt"', None),
    "csv": Row(
        "format csv",
        _csv,
        'format = { type = "csv", columns = ["time", "level", "n", "msg", "status", "ms"] }',
        _processors({"decode_csv_fields": {"fields": {"message": "csv"}}}),
    ),
    "syslog": Row("format syslog, RFC 5424", _syslog, 'format = "syslog"', None),
    "docker": Row(
        "format docker",
        _docker,
        'format = "docker"',
        {"parsers": [{"container": {"format": "docker"}}]},
    ),
    "cri": Row(
        "format cri", _cri, 'format = "cri"', {"parsers": [{"container": {"format": "cri"}}]}
    ),
    "klog": Row(
        "format klog",
        _klog,
        'format = "klog"',
        _processors({"dissect": {"tokenizer": "%{severity} %{time} %{thread} %{caller}] %{msg}"}}),
    ),
    "access": Row(
        "format access",
        _same,
        'format = "access"',
        _processors({"dissect": {"tokenizer": _ACCESS}}),
    ),
    "auto": Row("format auto, of access logs", _same, 'format = "auto"', None),
}
"""Every row by its name."""
