"""Lines that real systems wrote: nearly all are read, by the format that is recognized."""

from pathlib import Path
from typing import Any

import pytest

from logdrive.pipeline.formats.catalog import make_format, recognize
from logdrive.pipeline.formats.format import ParsedLines
from tests.logdrive.pipeline.formats.log_lines import log_lines, rows, utc

FORMAT_OF = {
    "Android": "android",
    "Apache": "apache_error",
    "BGL": "bgl",
    "HDFS": "hdfs",
    "HPC": "hpc",
    "Hadoop": "hadoop",
    "HealthApp": "healthapp",
    "Linux": "syslog",
    "OpenSSH": "syslog",
    "OpenStack": "openstack",
    "Spark": "spark",
    "Zookeeper": "zookeeper",
    "apache-access": "access",
}
FIRST: dict[str, dict[str, Any]] = {
    "Android": {"logger": "WindowManager", "time": utc(2025, 3, 17, 16, 13, 38, 811000)},
    "Apache": {"level": "notice", "time": utc(2005, 12, 4, 4, 47, 44)},
    "BGL": {"node": "R02-M1-N0-C:J12-U11", "time": utc(2005, 6, 3, 22, 42, 50, 675872)},
    "HDFS": {"pid": 148, "logger": "dfs.DataNode$PacketResponder"},
    "HPC": {"node": "node-246", "logger": "unix.hw"},
    "Hadoop": {"thread": "main", "time": utc(2015, 10, 18, 18, 1, 47, 978000)},
    "HealthApp": {"logger": "Step_LSC", "time": utc(2017, 12, 23, 22, 15, 29, 606000)},
    "Linux": {"hostname": "combo", "program": "sshd(pam_unix)", "pid": 19939},
    "OpenSSH": {"program": "sshd", "time": utc(2025, 12, 10, 6, 55, 46)},
    "OpenStack": {"pid": 25746, "logger": "nova.osapi_compute.wsgi.server"},
    "Spark": {"level": "info", "logger": "executor.CoarseGrainedExecutorBackend"},
    "Zookeeper": {"logger": "FastLeaderElection", "message": "Notification time out: 3200"},
    "apache-access": {"client": "83.149.9.216", "status": 200, "bytes": 203023},
}


@pytest.fixture(scope="module")
def parsed_logs(real_logs: list[Path]) -> dict[str, tuple[str | None, ParsedLines]]:
    found = {}
    for path in real_logs:
        texts = path.read_bytes().decode(errors="replace").replace("\r\n", "\n").split("\n")
        lines = log_lines([text for text in texts[:2000] if text])
        name = recognize(lines)
        found[path.stem] = name, make_format(name or "timed").parse(lines)
    return found


def test_each_file_is_recognized(parsed_logs: dict[str, tuple[str | None, ParsedLines]]) -> None:
    assert {stem: name for stem, (name, _) in parsed_logs.items()} == FORMAT_OF


@pytest.mark.parametrize("stem", FORMAT_OF)
def test_of_each_file_at_least_99_lines_of_100_are_read(
    stem: str, parsed_logs: dict[str, tuple[str | None, ParsedLines]]
) -> None:
    parsed = parsed_logs[stem][1]
    assert parsed.reasons.null_count >= 0.99 * len(parsed.reasons) > 0
    assert parsed.time.null_count <= 0.01 * len(parsed.time)
    assert FIRST[stem].items() <= rows(parsed)[0].items()
