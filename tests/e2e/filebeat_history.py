"""Files that Filebeat reads at first, and the agent from then on; the registry in between."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

RECORDED: Final = Path(__file__).with_name("filebeat_registry.txt")
"""What a real Filebeat 7.17.29 wrote to its log.json in this history.

Instead of inodes it has the names that the files had in the end, and neither a device nor the
directory.
"""

_BANNER: Final = "web.log starts"


def configuration(logs: Path, port: int, tls: Path) -> dict[str, Any]:
    """Return a filebeat.yml with inputs of every kind that can be imported."""
    stream = {"type": "filestream", "prospector.scanner.check_interval": "1s"}
    log = {"type": "log", "scan_frequency": "1s"}
    after = {"type": "pattern", "pattern": "^trace", "negate": True, "match": "after"}
    return {
        "filebeat.inputs": [
            log | {"paths": [f"{logs}/app.log*"], "exclude_files": [r"\.gz$"]},
            log | {"paths": [f"{logs}/only.log"]},
            log | {"paths": [f"{logs}/copy.log"]},
            log | {"paths": [f"{logs}/pods/*.log"], "type": "container"},
            stream | {"id": "web", "paths": [f"{logs}/web.log*"]},
            stream | {"id": "name", "paths": [f"{logs}/name.log"], "file_identity.path": None},
            stream
            | {
                "id": "finger",
                "paths": [f"{logs}/finger.log*"],
                "prospector.scanner.fingerprint.enabled": True,
                "file_identity.fingerprint": None,
            },
            stream
            | {
                "id": "trace",
                "paths": [f"{logs}/trace.log"],
                "parsers": [{"multiline": after | {"timeout": "1s"}}],
            },
        ],
        "output.logstash": {
            "hosts": [f"localhost:{port}"],
            "ssl.certificate_authorities": [f"{tls}/ca.pem"],
            "ssl.certificate": f"{tls}/client.pem",
            "ssl.key": f"{tls}/client.key",
        },
        "logging.level": "warning",
    }


def write_while_filebeat_runs(logs: Path, pause: Callable[[], None]) -> list[str]:
    """Write, rotate and truncate; return all whole lines. *pause* waits for Filebeat."""
    write = _Writer(logs)
    for name in ("app", "only", "copy", "name", "finger"):
        write.lines(f"{name}.log", f"{name} one", 100)
    write.text("web.log", [_BANNER])
    write.lines("web.log", "web one", 100)
    write.text("trace.log", ["trace 1", "  at a", "  at b", "trace 2", "  at a"])
    (logs / "pods").mkdir()
    write.text("pods/a_b_c-1.log", [_of_container(f"pod one {number}") for number in range(20)])
    pause()

    for name in ("app.log", "only.log", "web.log"):
        (logs / name).rename(logs / f"{name}.1")
    (logs / "copy.log.1").write_bytes((logs / "copy.log").read_bytes())
    (logs / "copy.log").write_bytes(b"")
    write.lines("app.log.1", "app after its rotation", 5)
    for name in ("app", "only", "copy"):
        write.lines(f"{name}.log", f"{name} two", 50)
    write.text("web.log", [_BANNER])  # begins as its predecessor does
    pause()
    with (logs / "app.log").open("a") as file:
        file.write("half a line")
    return write.written


def write_after_filebeat(logs: Path) -> list[str]:
    """Write and rotate while neither reads; return all lines that Filebeat has not seen whole."""
    write = _Writer(logs)
    with (logs / "app.log").open("a") as file:
        file.write(", and its end\n")
    write.written.append("half a line, and its end")
    for name in ("app.log.1", "app.log", "web.log.1", "web.log", "name.log", "finger.log"):
        write.lines(name, f"{name} three", 30)
    (logs / "app.log.1").rename(logs / "app.log.2")
    for name in ("app.log", "finger.log"):
        (logs / name).rename(logs / f"{name}.1")
        write.lines(name, f"{name} four", 40)
    write.lines("copy.log", "copy three", 30)
    write.text("trace.log", ["trace 3", "  at a", "  at c"])
    write.text("pods/a_b_c-1.log", [_of_container(f"pod two {number}") for number in range(20)])
    return write.written


def final_names(logs: Path) -> dict[str, Path]:
    """Return the files that Filebeat knows by their inodes, by their names when it stopped."""
    return {
        str(path.relative_to(logs)): path for path in sorted(logs.rglob("*.log*")) if path.is_file()
    }


def place_registry(recorded: Path, logs: Path, directory: Path) -> Path:
    """Make the registry in *directory*, as Filebeat would have left it for these files."""
    text = recorded.read_text().replace("DIRECTORY", str(logs))
    for name, path in final_names(logs).items():
        stat = path.stat()
        text = text.replace(f"<inode of {name}>", str(stat.st_ino))
        text = text.replace('"<device>"', str(stat.st_dev)).replace("<device>", str(stat.st_dev))
    directory.mkdir()
    (directory / "meta.json").write_text('{"version":"1"}')
    (directory / "log.json").write_text(text)
    return directory


def record_registry(data: Path, logs: Path, recorded: Path) -> None:
    """Write what Filebeat's *data* directory has of *logs*: the inverse of `place_registry`."""
    text = (data / "registry/filebeat/log.json").read_text().replace(str(logs), "DIRECTORY")
    for name, path in final_names(logs).items():
        stat = path.stat()
        text = text.replace(f'"inode":{stat.st_ino}', f'"inode":<inode of {name}>')
        text = text.replace(
            f"native::{stat.st_ino}-{stat.st_dev}", f"native::<inode of {name}>-<device>"
        )
        text = text.replace(f'"device":{stat.st_dev}', '"device":<device>')
    recorded.write_text(text)


def _of_container(line: str) -> str:
    return f"2026-11-23T10:00:00.000000000Z stdout F {line}"


class _Writer:
    """Appends lines to files below a directory, and knows which."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.written: list[str] = []

    def lines(self, name: str, text: str, count: int) -> None:
        self.text(name, [f"{text} {number} of {count}" for number in range(count)])

    def text(self, name: str, lines: list[str]) -> None:
        with (self.logs / name).open("a") as file:
            file.write("".join(line + "\n" for line in lines))
        self.written += lines
