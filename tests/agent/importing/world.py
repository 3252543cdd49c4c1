"""Imports inputs of a filebeat.yml, and reads what is made of them."""

from typing import Any

from agent.config.config import AgentConfig
from agent.importing.filebeat import import_filebeat
from agent.importing.imported import Imported
from agent.importing.toml_text import toml_text
from logdrive.config.load import parse_config

OUTPUT = 'output.logstash:\n  hosts: ["logs.example.org"]\n'


def imported(inputs: str, **environment: str) -> Imported:
    return import_filebeat(f"filebeat.inputs:\n{inputs}{OUTPUT}", "filebeat.yml", environment)


def only_input(inputs: str) -> dict[str, Any]:
    (table,) = imported(inputs).document["input"]
    assert isinstance(table, dict)
    return table


def remarks(made: Imported) -> dict[str, str]:
    return {remark.key: remark.text for remark in made.remarks}


def loaded(made: Imported) -> AgentConfig:
    text = toml_text(made, origin="filebeat.yml", state_dir="/state")
    return parse_config("agent.toml", text, AgentConfig)
