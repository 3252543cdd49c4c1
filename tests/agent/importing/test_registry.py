"""Positions of Filebeat's registry, as its versions 5 to 9 write it."""

import json
from pathlib import Path

import pytest

from agent.importing.filebeat_registry import read_registry
from agent.inputs.files.taken_positions import TakenPosition
from logdrive.errors import ConfigError

LOG_ENTRY = {
    "source": "/var/log/a.log",
    "offset": 100,
    "FileStateOS": {"inode": 7, "device": 5},
    "identifier_name": "native",
    "type": "log",
    "ttl": -1,
}
STREAM_ENTRY = {
    "cursor": {"offset": 200},
    "meta": {"source": "/var/log/b.log", "identifier_name": "native"},
    "ttl": 0,
}


def written(directory: Path, *operations: object, checkpoint: list[object] | None = None) -> str:
    place = directory / "registry" / "filebeat"
    place.mkdir(parents=True)
    (place / "meta.json").write_text('{"version":"1"}')
    if checkpoint is not None:
        (place / "12.json").write_text(json.dumps(checkpoint))
        (place / "active.dat").write_text(f"{place}/12.json")
    (place / "log.json").write_text("".join(json.dumps(one) + "\n" for one in operations))
    return str(directory / "registry")


def put(key: str, value: object) -> tuple[object, object]:
    return {"op": "set", "id": 1}, {"k": key, "v": value}


def test_the_log_holds_over_the_checkpoint(tmp_path: Path) -> None:
    old = LOG_ENTRY | {"offset": 1, "_key": "filebeat::logs::native::7-5"}
    gone = LOG_ENTRY | {"source": "/gone", "_key": "filebeat::logs::native::8-5"}
    path = written(
        tmp_path,
        *put("filebeat::logs::native::7-5", LOG_ENTRY),
        *put("filestream::my-id::native::9-5", STREAM_ENTRY),
        *put("filestream::my-id::fingerprint::ab12", STREAM_ENTRY),
        *put("filestream::my-id::path::/var/log/b.log", STREAM_ENTRY),
        *({"op": "remove", "id": 2}, {"k": "filebeat::logs::native::8-5"}),
        *put("journald::x", {"cursor": {"position": "s=1"}}),
        checkpoint=[old, gone],
    )
    stream = {"path": "/var/log/b.log", "offset": 200}
    assert read_registry(path) == [
        TakenPosition(path="/var/log/a.log", offset=100, inode=7, device=5),
        TakenPosition(**stream, inode=9, device=5),  # type: ignore[arg-type]
        TakenPosition(**stream, fingerprint="ab12"),  # type: ignore[arg-type]
        TakenPosition(**stream),  # type: ignore[arg-type]
    ]


def test_of_several_entries_of_a_file_the_newest_holds(tmp_path: Path) -> None:
    """As of an input of the type log that became a filestream, and of one that got another id."""
    stream = {"meta": {"source": "/var/log/a.log"}}
    path = written(
        tmp_path,
        *put("filestream::b::native::7-5", stream | {"cursor": {"offset": 3}, "updated": [9, 20]}),
        *put("filebeat::logs::native::7-5", LOG_ENTRY | {"timestamp": [0, 10]}),
        *put("filestream::a::native::7-5", stream | {"cursor": {"offset": 2}, "updated": [8, 20]}),
        *put("filestream::c::native::7-5", stream | {"cursor": None, "updated": [1, 1 << 63]}),
        *put("filestream::c::native::8-5", stream | {"cursor": {"offset": 1}}),
    )
    assert [(one.inode, one.offset) for one in read_registry(path)] == [(7, 3), (8, 1)]


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    path = Path(written(tmp_path, *put("filebeat::logs::native::7-5", LOG_ENTRY)))
    with (path / "filebeat" / "log.json").open("a") as log:
        log.write('{"op":"set","id":2}\n{"k":"filebeat::lo')
    assert [one.offset for one in read_registry(str(path))] == [100]


def test_the_one_file_of_old_versions(tmp_path: Path) -> None:
    (tmp_path / "registry").write_text(json.dumps([LOG_ENTRY]))
    assert [one.offset for one in read_registry(str(tmp_path / "registry"))] == [100]


def test_what_is_no_registry_is_refused_with_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no registry of Filebeat"):
        read_registry(str(tmp_path))
    (tmp_path / "registry").write_text("[{")
    with pytest.raises(ConfigError, match="copy its registry again"):
        read_registry(str(tmp_path / "registry"))


def test_a_registry_that_is_not_whole_is_refused(tmp_path: Path) -> None:
    """Positions that are missing from it would be sent again."""
    entry = put("filebeat::logs::native::7-5", LOG_ENTRY)
    path = Path(written(tmp_path, *entry, checkpoint=[]))
    (path / "filebeat" / "12.json").unlink()
    with pytest.raises(ConfigError, match=r"active\.dat.*12\.json, which is not there"):
        read_registry(str(path))

    (path / "filebeat" / "active.dat").unlink()
    log = path / "filebeat" / "log.json"
    log.write_text("{damaged\n" + log.read_text())
    with pytest.raises(ConfigError, match="line 1 is damaged, and more follow"):
        read_registry(str(path))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("filebeat::logs::native::7-5", LOG_ENTRY | {"offset": "x"}),
        ("filestream::a::native::x-5", STREAM_ENTRY),
        ("filestream::a::native::7-5", [1]),
    ],
)
def test_an_entry_that_filebeat_does_not_write_is_named(
    tmp_path: Path, key: str, value: object
) -> None:
    with pytest.raises(ConfigError, match=f"its entry {key} is none"):
        read_registry(written(tmp_path, *put(key, value)))
