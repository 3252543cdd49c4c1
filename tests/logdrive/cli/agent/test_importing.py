"""`logdrive agent import` writes agent.toml and positions, and overwrites nothing."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.inputs.files.taken_positions import FILE_NAME
from logdrive.cli.agent.command import agent
from logdrive.errors import ConfigError

FILEBEAT = """\
filebeat.inputs:
- {type: log, paths: [/var/log/a.log], unknown: 1}
output.logstash.hosts: [a]
"""


@pytest.fixture
def filebeat(tmp_path: Path) -> Path:
    path = tmp_path / "filebeat.yml"
    path.write_text(FILEBEAT)
    return path


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    path = tmp_path / "registry"
    entry = {"source": "/var/log/a.log", "offset": 7, "FileStateOS": {"inode": 1, "device": 2}}
    path.write_text(json.dumps([entry]))
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(agent, ["import", *map(str, arguments)])


def test_it_prints_the_file_and_says_on_standard_error_what_has_no_counterpart(
    filebeat: Path,
) -> None:
    done = run(filebeat)
    assert done.exit_code == 0
    assert 'paths = [\n    "/var/log/a.log",\n]' in done.stdout
    assert "filebeat.inputs[0].unknown: has no counterpart" in done.stderr


def test_a_file_that_exists_is_not_overwritten(filebeat: Path, tmp_path: Path) -> None:
    target = tmp_path / "agent.toml"
    assert run(filebeat, "--to", target).exit_code == 0
    before = target.read_text()
    done = run(filebeat, "--to", target)
    assert isinstance(done.exception, ConfigError)
    assert "it exists" in str(done.exception)
    assert target.read_text() == before


def test_no_position_is_written_beside_a_file_that_exists(
    filebeat: Path, registry: Path, tmp_path: Path
) -> None:
    (target := tmp_path / "agent.toml").touch()
    state = tmp_path / "state"
    done = run(filebeat, "--to", target, "--registry", registry, "--state-dir", state)
    assert isinstance(done.exception, ConfigError)
    assert not state.exists()


def test_a_registry_without_positions_is_refused_and_nothing_written(
    filebeat: Path, registry: Path, tmp_path: Path
) -> None:
    registry.write_text("[]")
    target, state = tmp_path / "agent.toml", tmp_path / "state"
    done = run(filebeat, "--to", target, "--registry", registry, "--state-dir", state)
    assert isinstance(done.exception, ConfigError)
    assert "leave --registry out" in str(done.exception)
    assert not target.exists()
    assert not state.exists()


def test_a_file_that_is_not_utf_8_is_refused_with_its_line_and_a_remedy(filebeat: Path) -> None:
    filebeat.write_bytes(FILEBEAT.encode() + "# für alle\n".encode("latin1"))
    said = str(run(filebeat).exception)
    assert f"{filebeat}: line 4: it is not UTF-8" in said
    assert f"iconv -f latin1 -t utf-8 {filebeat}" in said


STOCK = """\
filebeat.inputs:
- {type: filestream, id: my-id, enabled: false, paths: [/var/log/*.log]}
filebeat.config.modules: {path: "${path.config}/modules.d/*.yml", reload.enabled: false}
output.elasticsearch.hosts: ["localhost:9200"]
"""


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (
            STOCK,
            [
                "filebeat.inputs[0]: is not enabled, and left out",
                "filebeat.config.modules.path: modules are not read",
                "output.elasticsearch: the agent sends to logdrive's receiver",
            ],
        ),
        (
            "filebeat.inputs:\n- {type: log, paths: [relative/*.log]}\n",
            ["filebeat.inputs[0].paths: relative/*.log: is not absolute: left out"],
        ),
        ("filebeat.inputs: 3\n", ["filebeat.inputs[0]: is 3, and not a table"]),
        ("[INPUT]\n  Name cpu\n", ["input: there is no tail input"]),
    ],
)
def test_where_no_input_is_left_the_notes_say_why_and_the_error_names_the_file(
    filebeat: Path, text: str, notes: list[str]
) -> None:
    filebeat.write_text(text)
    done = run(filebeat)
    assert str(done.exception).startswith(f"{filebeat}: it has no input that the agent can take")
    assert isinstance(done.exception, ConfigError)
    assert done.stdout == ""
    for note in notes:
        assert note in done.stderr


def test_what_the_agent_would_not_take_is_refused_after_the_notes(filebeat: Path) -> None:
    filebeat.write_text(FILEBEAT.replace("hosts: [a]", "hosts: ['a:99999']"))
    done = run(filebeat)
    assert "agent.toml, made of filebeat.yml: output" in str(done.exception)
    assert "filebeat.inputs[0].unknown: has no counterpart" in done.stderr


def test_a_key_pipeline_does_not_make_it_fluent_bits(filebeat: Path) -> None:
    filebeat.write_text(FILEBEAT.replace("unknown: 1", "pipeline: nginx") + "# not [INPUT]\n")
    assert '"/var/log/a.log"' in run(filebeat).stdout


def test_positions_are_written_for_the_first_start_alone(
    filebeat: Path, registry: Path, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    arguments = (filebeat, "--registry", registry, "--state-dir", state)
    assert "/var/log/a.log: from byte 7" in run(*arguments, "--dry-run").stderr
    assert not state.exists()
    assert run(*arguments).exit_code == 0
    assert json.loads((state / FILE_NAME).read_text())[0]["offset"] == 7
    (state / "checkpoint.json").write_text("{}")
    assert "knows its positions" in str(run(*arguments).exception)
