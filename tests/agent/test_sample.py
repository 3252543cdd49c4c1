"""`agent check --sample` shows what a run would do to the lines of a file, and sends nothing."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import zstandard

from agent.config.config import AgentConfig
from agent.sample import SampleReport, check_sample
from logdrive.cli.agent.sample_report import sample_lines
from logdrive.errors import ConfigError
from logdrive.records.chunk import CHUNK_BYTES
from tests.support.memory.disk import MemoryDisk

LOG = "/logs/app.log"


def _config(*inputs: dict[str, Any]) -> AgentConfig:
    return msgspec.convert(
        {
            "agent": {"state_dir": "/state"},
            "input": [{"paths": ["/logs/*.log"]} | table for table in inputs],
            "output": {"hosts": ["reader:5044"], "tls": "off"},
        },
        AgentConfig,
    )


def _sample(
    config: AgentConfig, data: bytes, key: str | None = None, path: str = LOG
) -> SampleReport:
    disk = MemoryDisk(["/logs"])
    disk.write(path, data)
    return check_sample(config, path, key, disk=disk, monotonic=lambda: 0.0)


def test_each_step_is_shown_with_what_it_does_to_each_event() -> None:
    config = _config(
        {
            "multiline": {"continue": "^ "},
            "processor": [
                {"exclude": {"pattern": "^DEBUG"}},
                {"redact": {"presets": ["email"]}},
                {"add": {"team": "shop"}},
            ],
        }
    )
    report = _sample(config, b"DEBUG x\na@b.org\n  more\nplain\n")

    assert list(sample_lines(report, 2)) == [
        "/logs/app.log as input[0]: 29 bytes, 3 events, of which 2 would be sent",
        "  cut: 3 events, 1 of several lines",
        "  processor[0] exclude: 3 events, 1 dropped (8 bytes)",
        "  processor[1] redact: 2 events, 1 changed, email 1 times in 1 events",
        "  processor[2] add: 2 events, 2 changed",
        "",
        "bytes 0 to 8: DEBUG x",
        "  processor[0] exclude: dropped",
        "",
        "bytes 8 to 23: a@b.org\\n  more",
        "  processor[1] redact:",
        "    message [redacted email]\\n  more",
        "    flags redacted",
        "  processor[2] add:",
        '    fields {"team":"shop"}',
        "",
        "1 more events were changed or dropped",
    ]


def test_a_format_is_a_step_that_counts_what_it_can_not_read() -> None:
    report = _sample(_config({"format": "json"}), b'{"a":1}\n{"b":"x"}\nno\n')

    assert list(sample_lines(report, 1)) == [
        "/logs/app.log as input[0]: 21 bytes, 3 events, of which 3 would be sent",
        "  format json: 3 events, 3 changed, 1 of another form",
        "",
        'bytes 0 to 8: {"a":1}',
        "  format json:",
        '    fields {"a":1}',
        "",
        "2 more events were changed or dropped",
    ]


def test_an_input_without_steps_says_so() -> None:
    report = _sample(_config({}), b"a\nb\n")

    assert list(sample_lines(report, 2)) == [
        "/logs/app.log as input[0]: 4 bytes, 2 events, of which 2 would be sent",
        "  nothing looks at them: they are sent as they are",
    ]


def test_events_that_are_no_lines_are_shown_as_they_are_cut() -> None:
    config = _config({"longest_event_bytes": 10, "multiline": {"preset": "java"}})
    report = _sample(config, b"one\n\tat a.B\n" + b"x" * 30 + b"\ntwo\n")
    assert list(sample_lines(report, 10)) == [
        "/logs/app.log as input[0]: 47 bytes, 3 events, of which 3 would be sent",
        "  cut: 3 events, 1 of several lines, 2 over the limit (23 bytes left out)",
        "",
        r"bytes 0 to 12: one\n\tat a.",
        "    flags truncated",
        "",
        "bytes 12 to 43: xxxxxxxxxx",
        "    flags truncated",
    ]


def test_an_empty_file_has_no_events() -> None:
    assert _sample(_config({}), b"").events == []


def test_only_the_beginning_of_a_large_file_is_read() -> None:
    report = _sample(_config({}), b"0123456789abcde\n" * 100_000)

    assert report.bytes == CHUNK_BYTES


def test_the_input_is_the_first_that_matches_or_the_one_that_is_named() -> None:
    config = _config({"paths": ["/x/*"]}, {}, {"tags": ["other"]})

    assert _sample(config, b"a\n").input == "input[1]"
    assert _sample(config, b"a\n", "input[2]").input == "input[2]"
    with pytest.raises(ConfigError, match=r"there are input\[0\], input\[1\], input\[2\]"):
        _sample(config, b"a\n", "input[3]")


def test_a_file_of_no_input_and_one_that_is_not_there_are_errors() -> None:
    config = _config({"paths": ["/x/*"]}, {"paths": ["/y/*"]})

    with pytest.raises(ConfigError, match="no input's paths match it: name one with --input"):
        _sample(config, b"a\n")
    with pytest.raises(ConfigError, match=r"/logs/app\.log: No such file"):
        check_sample(_config({}), LOG, None, disk=MemoryDisk(["/logs"]), monotonic=lambda: 0.0)


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".xz", lzma.compress),
        (".zst", zstandard.ZstdCompressor().compress),
    ],
)
def test_a_compressed_file_is_unpacked_up_to_what_is_sampled(
    suffix: str, pack: Callable[[bytes], bytes]
) -> None:
    config, path = _config({"processor": [{"exclude": {"pattern": "^b"}}]}), f"{LOG}{suffix}"
    report = _sample(config, pack(b"a\nb\n") + pack(b"c\n"), path=path)
    assert (report.bytes, len(report.events), report.sent) == (6, 3, 2)
    report = _sample(config, pack((b"line" * 31 + b"end\n") * (CHUNK_BYTES // 64)), path=path)
    assert report.bytes == CHUNK_BYTES, "twice as much is in the file"


def test_a_file_that_can_not_be_unpacked_is_told() -> None:
    for data, message in (
        (b"plain text\n" * 9, "it can't be unpacked as .gz"),
        (gzip.compress(b"line\n")[:-3], "its bytes end before .gz does"),
    ):
        with pytest.raises(ConfigError, match=message):
            _sample(_config({}), data, path=f"{LOG}.gz")
