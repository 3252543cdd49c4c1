"""Tail inputs of Fluent Bit become inputs of files, in both forms of its configuration."""

import pytest

from agent.config.config import AgentConfig
from agent.importing.fluent_bit import import_fluent_bit
from agent.importing.toml_text import toml_text
from agent.inputs.files.paths.globs import FileInputs
from logdrive.config.load import parse_config
from logdrive.errors import ConfigError

CLASSIC = """\
[SERVICE]
    Flush 1
@SET a=b
[INPUT]
    Name              tail
    Path              /var/log/a.log, ${LOGS}/*.log
    Exclude_Path      *.gz,/var/log/b/*.zip
    Parser            docker
    DB                /var/log/flb.db
    Mem_Buf_Limit     5MB
    multiline.parser  java, python
    Read_from_Head    On
[INPUT]
    Name  tail
    Path  /var/log/c.log
    Parser my_own
    Unknown x
[INPUT]
    Name  cpu
[FILTER]
    Name  grep
[OUTPUT]
    Name  es
"""
AS_YAML = """\
pipeline:
  inputs:
    - name: tail
      path: /var/log/a.log
      multiline.parser: [docker, cri]
    - name: cpu
  outputs:
    - name: es
"""


def test_the_classic_form() -> None:
    made = import_fluent_bit(CLASSIC, "fluent-bit.conf", {"LOGS": "/logs"})
    first, second = made.document["input"]
    assert first == {
        "paths": ["/var/log/a.log", "/logs/*.log"],
        "exclude": ["/var/log/b/*.zip"],
        "format": "docker",
        "multiline": {"preset": ["java", "python"]},
    }
    assert second == {"paths": ["/var/log/c.log"], "start": "end"}
    assert [remark.key for remark in made.remarks] == [
        "service.flush",
        "input[0].exclude_path: *.gz",
        "input[0]",
        "input[1].parser",
        "input[1].unknown",
        "input[2]",
        "filter[0]",
        "output[0]",
        "output",
    ]
    text = toml_text(made, origin="fluent-bit.conf", state_dir="/state")
    assert len(parse_config("agent.toml", text, AgentConfig).input) == 2


def test_an_input_without_a_counterpart_is_told_apart_from_one_that_has_one() -> None:
    text = CLASSIC + "[INPUT]\n  Name systemd\n[INPUT]\n  Path /x\n"
    said = dict(import_fluent_bit(text, "fluent-bit.conf", {"LOGS": "/logs"}).remarks)
    assert said["input[2]"] == "is cpu: has no counterpart, and is left out"
    assert said["input[3]"] == "is systemd: write [journald]"
    assert said["input[4]"] == "is a plugin without a name: has no counterpart, and is left out"


def test_a_path_that_a_tail_input_before_has_is_told() -> None:
    tail = "[INPUT]\n  Name tail\n  Path /var/log/a.log\n"
    made = import_fluent_bit(tail + tail + "  Parser json\n", "fluent-bit.conf", {})
    assert [remark.text for remark in made.remarks if remark.key == "input[1]"] == [
        "gets nothing of /var/log/a.log: a file belongs to the first [[input]] that names it, and "
        "one before does; write what both do into that one"
    ]


@pytest.mark.parametrize(
    ("pattern", "left_out", "kept"),
    [
        ("*.zip", ["/var/log/a.zip", "/var/log/b/c.zip"], ["/var/log/a.zip.log"]),
        ("*debug*", ["/var/log/debug/x.log", "/var/log/my-debug.log"], ["/var/log/a.log"]),
        ("*/old/*.log", ["/var/log/old/a.log"], ["/var/log/older/a.log"]),
    ],
)
def test_a_star_at_the_beginning_stands_for_directories_as_in_fluent_bit(
    pattern: str, left_out: list[str], kept: list[str]
) -> None:
    text = f"[INPUT]\n  Name tail\n  Path /var/log/**/*\n  Exclude_Path {pattern}\n"
    made = import_fluent_bit(text, "fluent-bit.conf", {})
    agent_toml = toml_text(made, origin="fluent-bit.conf", state_dir="/state")
    inputs = FileInputs(parse_config("agent.toml", agent_toml, AgentConfig).input)
    assert [path for path in left_out if inputs.settings_for(path) is not None] == []
    assert [path for path in kept if inputs.settings_for(path) is None] == []


def test_tabs_may_stand_between_a_setting_and_its_value() -> None:
    made = import_fluent_bit("[INPUT]\n\tName\ttail\n\tPath\t/var/log/a.log\n", "f.conf", {})
    assert made.document["input"] == [{"paths": ["/var/log/a.log"], "start": "end"}]


def test_the_form_of_yaml() -> None:
    made = import_fluent_bit(AS_YAML, "fluent-bit.yaml", {})
    assert made.document["input"] == [
        {"paths": ["/var/log/a.log"], "start": "end", "format": "auto"}
    ]


def test_what_is_read_nowhere_is_named_in_the_classic_form() -> None:
    made = import_fluent_bit(
        "@SET dir=/var/log\n@INCLUDE more.conf\n[SERVICE]\n  HTTP_Server On\n[INPUT]\n  Name tail\n"
        "  Path ${dir}/a.log\n  Tag ${NONE}\n  Multiline On\n  Parser_Firstline mine\n"
        "  Path_Key file\n[PARSER]\n  Name mine\n",
        "fluent-bit.conf",
        {},
    )
    assert made.document["input"] == [{"paths": ["/var/log/a.log"], "start": "end"}]
    said = {remark.key: remark.text for remark in made.remarks}
    assert "is not set here" in said["${NONE}"]
    assert "import it, too" in said["include @INCLUDE more.conf"]
    assert "[control]" in said["service.http_server"]
    assert "the pattern of mine" in said["input[0].multiline"]
    assert said["input[0]"].startswith("needs no tag, path_key: ")
    assert "parser mine" in said


def test_what_is_read_nowhere_is_named_in_the_form_of_yaml() -> None:
    made = import_fluent_bit(
        "env: {a: b}\nincludes: more.yaml\nservice: {storage: {path: /b}}\n"
        "parsers: [{name: mine}]\nmultiline_parsers: [{name: ours}]\n" + AS_YAML,
        "fluent-bit.yaml",
        {},
    )
    assert {remark.key for remark in made.remarks} >= {
        "env",
        "include more.yaml",
        "service.storage.path",
        "parser mine",
        "multiline_parser ours",
    }


@pytest.mark.parametrize("text", ["", "a = b", "pipeline: {}", "a: ["])
def test_what_has_no_section_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"fluent-bit\.conf"):
        import_fluent_bit(text, "fluent-bit.conf", {})
