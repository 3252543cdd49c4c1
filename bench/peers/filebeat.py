"""Filebeat, file → mutual TLS → logdrive's receiver, until its registry says that all was
acknowledged.
"""

import json
import re
import time
from pathlib import Path
from typing import Any, Final

from bench.certificates import Certificates
from bench.peers.filebeat_build import BINARY
from bench.processes import BenchmarkError, Child, Usage

_LOOK_SECONDS: Final = 0.05
_OFFSET: Final = re.compile(rb'"offset":(\d+)')


def carry(
    log: Path,
    home: Path,
    tls: Certificates,
    port: int,
    stream: dict[str, Any],
    children: list[Child],
    limit: float,
) -> Usage:
    """Return what Filebeat took to deliver *log* to the receiver at *port*, and to end.

    *stream* are keys of its filestream input, and its processors; *home* is a new directory.
    """
    home.mkdir(parents=True)
    config = home / "filebeat.yml"
    config.write_text(json.dumps(_config(log, tls, port, stream)))  # JSON is YAML
    config.chmod(0o600)
    command: list[str | Path] = [BINARY, "run", "-e", "-c", config]
    command += ["--path.home", home, "--path.data", home / "data", "--path.logs", home / "logs"]
    filebeat = Child(command, log=home / "filebeat.err")
    children.append(filebeat)

    registry, size = home / "data/registry/filebeat/log.json", log.stat().st_size
    deadline = time.monotonic() + limit
    while _acknowledged(registry) < size:
        if filebeat.poll() is not None or time.monotonic() > deadline:
            raise BenchmarkError(f"Filebeat did not deliver: {filebeat.said()}")
        filebeat.peak_rss()
        time.sleep(_LOOK_SECONDS)
    filebeat.ask_to_end()
    return filebeat.wait(60)


def _acknowledged(registry: Path) -> int:
    """Return the position up to which the log was acknowledged."""
    if not registry.exists():
        return 0
    return max(map(int, _OFFSET.findall(registry.read_bytes())), default=0)


def _config(log: Path, tls: Certificates, port: int, stream: dict[str, Any]) -> dict[str, Any]:
    one = {
        "type": "filestream",
        "id": "bench",
        "paths": [str(log)],
        "prospector.scanner.check_interval": "1s",
    }
    return {
        "filebeat.inputs": [one | stream],
        "output.logstash": {
            "hosts": [f"127.0.0.1:{port}"],
            "ssl": {
                "certificate_authorities": [str(tls.ca)],
                "certificate": str(tls.client_cert),
                "key": str(tls.client_key),
                "verification_mode": "certificate",
            },
        },
        "logging.level": "warning",
    }
