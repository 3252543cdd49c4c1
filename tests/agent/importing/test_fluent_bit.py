"""Tail inputs of Fluent Bit become inputs of files, in both forms of its configuration."""

import pytest

from agent.config.config import AgentConfig
from agent.importing.fluent_bit import import_fluent_bit
from agent.importing.toml_text import toml_text
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
    multiline.parser  java
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
        "multiline": {"preset": "java"},
    }
    assert second == {"paths": ["/var/log/c.log"], "start": "end"}
    assert [remark.key for remark in made.remarks] == [
        "input[0].path: *.gz",
        "input[1].parser",
        "input[1].unknown",
        "input[2]",
        "filter[0]",
        "output[0]",
        "output",
    ]
    text = toml_text(made, origin="fluent-bit.conf", state_dir="/state")
    assert len(parse_config("agent.toml", text, AgentConfig).input) == 2


def test_the_form_of_yaml() -> None:
    made = import_fluent_bit(AS_YAML, "fluent-bit.yaml", {})
    assert made.document["input"] == [
        {"paths": ["/var/log/a.log"], "start": "end", "format": "cri"}
    ]


@pytest.mark.parametrize("text", ["", "a = b", "pipeline: {}", "a: ["])
def test_what_has_no_section_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"fluent-bit\.conf"):
        import_fluent_bit(text, "fluent-bit.conf", {})
