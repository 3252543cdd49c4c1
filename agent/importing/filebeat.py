"""Reads a filebeat.yml: inputs of type log, filestream and container, and output.logstash.

The names of settings are Filebeat's, of versions 7 to 9.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from agent.importing.filebeat_fields import take_fields
from agent.importing.filebeat_inputs import import_input
from agent.importing.filebeat_output import import_output
from agent.importing.filebeat_processors import import_processors
from agent.importing.fluent_bit import SECTION
from agent.importing.imported import Imported
from agent.importing.settings import Settings, as_list
from agent.importing.yaml_text import load_yaml
from logdrive.errors import ConfigError, Mistake

_VARIABLE: Final = re.compile(r"\$\{([^}:]+)(?::([^}]*))?\}")

_NEITHER: Final = (
    "it has neither Filebeat's inputs and output nor Fluent Bit's sections: give a file of one of "
    "these; for other shippers docs/agent.md has a table of their keys and ours"
)
_MODULES: Final = "modules are not read: write an [[input]] with the paths of their files"
_NOT_NEEDED: Final = {
    "filebeat.config.modules": _MODULES,
    "filebeat.config.": "the files that it names are not read: put their inputs into this one",
    "filebeat.modules": _MODULES,
    "queue.": "what waits stays in its files, so there is no queue",
    "filebeat.registry": "see --registry; the checkpoint is in [agent] state_dir",
    "filebeat.shutdown_timeout": "[agent] drain_seconds is its counterpart, with 30 s",
    "logging.": "logdrive logs to standard error, in a form that `--log-format` chooses",
    "setup.": "concerns Elasticsearch and Kibana",
    "monitoring.": "[control] metrics is its counterpart, for Prometheus",
    "http.": "[control] metrics is its counterpart, for Prometheus",
    "path.": "[agent] state_dir is its counterpart",
    "max_procs": "an agent needs two threads to compress, and no more",
}
"""Settings of Filebeat that need no counterpart, or have none, and what becomes of them."""


def import_filebeat(text: str, path: str, environment: Mapping[str, str]) -> Imported:
    """Return what the filebeat.yml *text*, which was read from *path*, means to the agent.

    Raises `ConfigError` if it is no YAML, or no configuration of Filebeat.
    """
    imported = Imported()
    settings = Settings(_parse(_substitute(text, environment, imported), path), "")
    inputs_name, listed = settings.take_named("filebeat.inputs", "filebeat.prospectors")
    inputs = as_list(listed)
    to_logstash = any(key.startswith("output.logstash.hosts") for key, _ in settings.left())
    for number, table in enumerate(inputs):
        where = f"{inputs_name}[{number}]"
        if isinstance(table, Mapping):
            import_input(table, where, imported, to_logstash=to_logstash)
        else:
            imported.add_remark(where, f"is {table!r}, and not a table with `type`: left out")
    if not inputs:
        imported.add_remark("filebeat.inputs", "there is none: write an [[input]] by hand")

    if name := settings.take("name"):
        imported.document["agent"] = {"host": str(name)}
    _import_general(settings, imported, to_logstash=to_logstash)
    import_output(settings, imported)
    for key, value in settings.left():
        reason = next((why for prefix, why in _NOT_NEEDED.items() if key.startswith(prefix)), "")
        if key.endswith("enabled") and value is False:
            continue
        imported.add_remark(key, reason or "has no counterpart")
    return imported


def _parse(text: str, path: str) -> Mapping[str, Any]:
    try:
        document = load_yaml(text, path)
    except ConfigError:
        if _is_yaml(text, path):
            raise
        raise ConfigError(path, [Mistake("", "", _NEITHER)]) from None
    if not isinstance(document, Mapping) or not any(
        str(key).startswith(("filebeat", "output")) for key in document
    ):
        raise ConfigError(path, [Mistake("", "", _NEITHER)])
    return document


def _is_yaml(text: str, path: str) -> bool:
    """Return whether *text*, which can't be parsed, is YAML with a mistake."""
    is_named_so = path.lower().endswith((".yml", ".yaml"))
    return "filebeat" in text or (is_named_so and not SECTION.search(text))


def _substitute(text: str, environment: Mapping[str, str], imported: Imported) -> str:
    """Return *text* with the values of its variables, as Filebeat takes them."""

    def value(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name in environment:
            return environment[name]
        if default is not None:
            return default
        imported.add_remark(match[0], "is not set here: write its value instead")
        return match[0]

    return _VARIABLE.sub(value, text)


def _import_general(settings: Settings, imported: Imported, *, to_logstash: bool) -> None:
    """Add the fields, tags and processors of all inputs to each of them."""
    tables = imported.document.get("input", [])
    take_fields(settings, tables, imported, to_logstash=to_logstash)
    tags = as_list(settings.take("tags"))
    for table in tables if tags else ():
        table["tags"] = [*tags, *table.get("tags", [])]
    import_processors(as_list(settings.take("processors")), "processors", tables, imported)
