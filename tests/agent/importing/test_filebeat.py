"""A filebeat.yml becomes an agent.toml that means the same, and says where it does not."""

import re
import tomllib
from typing import Any

import pytest

from agent.importing.filebeat import import_filebeat
from agent.importing.toml_text import toml_text
from agent.inputs.files.paths.globs import FileInputs
from logdrive.errors import ConfigError
from tests.agent.importing.world import OUTPUT, imported, loaded, only_input, remarks


@pytest.mark.parametrize("kind", ["log", "filestream"])
def test_paths_labels_and_the_start_of_both_kinds_of_files(kind: str) -> None:
    table = only_input(
        f"- type: {kind}\n  paths: [/var/log/a.log, /var/log/b/*.log]\n  encoding: latin1\n"
        "  fields: {service: shop, app.name: x}\n  tags: [a, b]\n  ignore_older: 24h\n"
    )
    assert table == {
        "paths": ["/var/log/a.log", "/var/log/b/*.log"],
        "encoding": "latin1",
        "fields": {"service": "shop", "app": {"name": "x"}},
        "tags": ["a", "b"],
        "start": "1d",
    }


def test_an_end_of_lines_without_a_counterpart_is_told() -> None:
    inputs = "- type: log\n  paths: [/var/log/a.log]\n  line_terminator: {}\n"
    crlf = remarks(imported(inputs.format("carriage_return_line_feed")))
    assert not any("line_terminator" in key for key in crlf)
    made = imported(inputs.format("next_line"))
    assert "line_end" not in made.document["input"][0]
    (key,) = (key for key in remarks(made) if "line_terminator" in key)
    assert key.endswith("line_terminator: next_line")


@pytest.mark.parametrize(
    ("negate", "match", "key"),
    [
        ("true", "after", "start"),
        ("false", "after", "continue"),
        ("true", "before", "end"),
        ("false", "before", "goes_on"),
    ],
)
@pytest.mark.parametrize("form", ["multiline", "parser"])
def test_multiline_means_the_same(negate: str, match: str, key: str, form: str) -> None:
    options = f"{{pattern: '^x', negate: {negate}, match: {match}, max_lines: 9, timeout: 1m}}"
    inputs = (
        f"- type: log\n  paths: [/a]\n  multiline: {options}\n"
        if form == "multiline"
        else f"- type: filestream\n  paths: [/a]\n  parsers: [multiline: {options}]\n"
    )
    assert only_input(inputs)["multiline"] == {key: "^x", "max_lines": 9, "max_seconds": 60.0}


def test_include_goes_before_exclude_as_in_filebeat() -> None:
    table = only_input(
        "- type: log\n  paths: [/a]\n  exclude_lines: ['^DBG', '^TRC']\n  include_lines: ['x']\n"
    )
    assert table["processor"] == [
        {"include": {"pattern": "x"}},
        {"exclude": {"pattern": "(?:^DBG)|(?:^TRC)"}},
    ]


def test_json_lines_go_where_filebeat_puts_them() -> None:
    under = only_input("- type: log\n  paths: [/a]\n  json.keys_under_root: false\n")
    assert under["format"] == {
        "type": "json",
        "bad_lines": "keep",
        "fields": "under",
        "key": "json",
    }
    parsers = "- type: filestream\n  paths: [/a]\n  parsers: [ndjson: {}]\n"
    for options in ('{target: ""}', "{overwrite_keys: true}", "null"):
        top = only_input(parsers.format(options))
        assert top["format"] == {"type": "json", "bad_lines": "keep"}
    below = only_input(parsers.format("{target: app}"))
    assert below["format"]["key"] == "app"


def test_options_of_a_parser_may_be_written_with_dots() -> None:
    made = imported(
        "- type: filestream\n  paths: [/a]\n  parsers:\n"
        "  - multiline.pattern: ^x\n    multiline.negate: true\n"
        "  - include_message.patterns: [a]\n"
    )
    assert loaded(made).input[0].multiline is not None
    assert made.document["input"][0]["multiline"] == {"start": "^x"}
    assert remarks(made)["filebeat.inputs[0].parsers[1].include_message"] == "has no counterpart"


def test_options_beside_their_parser_are_told() -> None:
    made = imported("- type: filestream\n  paths: [/a]\n  parsers:\n  - ndjson:\n    target: app\n")
    assert "indented" in remarks(made)["filebeat.inputs[0].parsers[0].target"]


def test_lines_of_containers_are_recognized() -> None:
    table = only_input("- type: container\n  paths: [/var/log/containers/*.log]\n")
    assert table["format"] == "auto"
    table = only_input("- type: docker\n  containers.ids: ['*']\n")
    assert table["paths"] == ["/var/lib/docker/containers/*/*-json.log"]


def test_the_output_is_lumberjack_with_its_certificates() -> None:
    made = import_filebeat(
        "filebeat.inputs: [{type: log, paths: [/a]}]\noutput.logstash:\n"
        '  hosts: ["a", "tcp://b:5045", "[::1]"]\n  loadbalance: true\n  pipelining: 2\n  ttl: 5m\n'
        "  ssl: {certificate_authorities: [/ca.pem], certificate: /c.pem, key: /c.key}\n",
        "filebeat.yml",
        {},
    )
    output = loaded(made).output
    assert output.hosts == ["a:5044", "b:5045", "[::1]:5044"]
    assert (output.dialect, output.mode, output.windows_in_flight) == ("lumberjack/2", "balance", 3)
    assert output.max_connection_seconds == 300
    assert output.tls != "off"
    assert (output.tls.ca, output.tls.cert, output.tls.key) == ("/ca.pem", "/c.pem", "/c.key")


def test_certificates_within_the_file_are_to_be_written_into_files_of_their_own() -> None:
    pem = "-----BEGIN CERTIFICATE-----\\nMIIB\\n-----END CERTIFICATE-----"
    made = import_filebeat(
        "filebeat.inputs: [{type: log, paths: [/a]}]\noutput.logstash:\n  hosts: [a]\n"
        f'  ssl: {{certificate_authorities: ["{pem}"], certificate: /c.pem, key: /c.key}}\n',
        "filebeat.yml",
        {},
    )
    output = loaded(made).output
    assert output.tls != "off"
    assert (output.tls.ca, output.tls.cert) == ("/etc/logdrive/tls/ca.pem", "/c.pem")
    assert "into /etc/logdrive/tls/ca.pem" in remarks(made)["output.logstash.ssl (ca)"]


@pytest.mark.parametrize(
    ("expression", "left_out", "kept"),
    [
        (r"\.debug$", ["/a/x.debug", "/b/c/y.debug"], ["/a/x.debug.1", "/a/xdebug"]),
        (r"^/a/old", ["/a/old.log", "/a/older/x.log"], ["/b/a/old.log"]),
        ("^/a/x.log$", ["/a/x.log", "/a/x_log"], ["/a/x.log.1"]),
        ("trace", ["/a/my-trace.log", "/a/traces/x.log"], ["/a/b.log"]),
    ],
)
def test_files_are_left_out_as_filebeat_does(
    expression: str, left_out: list[str], kept: list[str]
) -> None:
    made = imported(f"- type: log\n  paths: [/**]\n  exclude_files: ['{expression}']\n")
    inputs = FileInputs(loaded(made).input)
    assert all(re.search(expression, path) for path in left_out)
    assert [path for path in left_out if inputs.settings_for(path)] == []
    assert [path for path in kept if not inputs.settings_for(path)] == []


@pytest.mark.parametrize("expression", [r"\.[0-9]+$", "a|b", "logs/x", "(x)", "^x"])
def test_an_expression_that_is_no_text_is_a_remark(expression: str) -> None:
    made = imported(f"- type: log\n  paths: [/a]\n  exclude_files: ['{expression}']\n")
    assert made.document["input"] == [{"paths": ["/a"]}]
    assert f"filebeat.inputs[0].exclude_files: {expression}" in remarks(made)


def test_without_logstash_the_output_is_to_be_a_receiver_of_logdrive() -> None:
    made = import_filebeat(
        "filebeat.inputs: [{type: log, paths: [/a]}]\noutput.elasticsearch.hosts: [es]\n", "f", {}
    )
    assert loaded(made).output.dialect == "logdrive/1"
    assert {"output.elasticsearch", "output.logstash.hosts"} <= set(remarks(made))


def test_another_shippers_file_is_refused_with_where_its_keys_are_explained() -> None:
    with pytest.raises(ConfigError, match=r"v\.toml: it has neither .*docs/agent\.md"):
        import_filebeat('[sources.a]\ntype = "file"\n', "v.toml", {})


def test_what_has_no_counterpart_is_named_and_left_out() -> None:
    made = imported(
        "- type: log\n  paths: [/a, b]\n  include_lines: ['(?=x)']\n  encoding: rot13\n"
        "  publisher_pipeline.disable_host: true\n  unknown_key: 1\n"
        "- type: udp\n- type: log\n  enabled: false\n  paths: [/c]\n"
    )
    (table,) = made.document["input"]
    assert table == {"paths": ["/a"]}
    assert {key.split(":")[0] for key in remarks(made)} == {
        "filebeat.inputs[0].paths",
        "filebeat.inputs[0].include_lines",
        "filebeat.inputs[0].encoding",
        "filebeat.inputs[0].publisher_pipeline.disable_host",
        "filebeat.inputs[0].unknown_key",
        "filebeat.inputs[1]",
        "filebeat.inputs[2]",
        "output.logstash",
    }
    assert loaded(made).input[0].paths == ["/a"]


def test_processors_with_a_counterpart_are_carried_over_in_their_order() -> None:
    made = imported(
        "- type: container\n  paths: [/a]\n  stream: stderr\n  processors:\n"
        "  - drop_fields: {fields: [debug, user.pin]}\n"
        "  - rename: {fields: [{from: lvl, to: log.level}]}\n"
        "  - add_fields: {target: app, fields: {name: shop}}\n"
        "  - drop_event.when.regexp.message: '^DEBUG'\n"
        "  - drop_event: {when: {regexp: {message: '^DEBUG'}}}\n"
        "  - drop_event: {when: {not: {equals: {level: 'a.b'}}}}\n"
        "  - drop_event: {when: {or: [{equals: {a: b}}]}}\n"
        "  - drop_event: {when: {regexp: {message: '(?=x)'}}}\n"
        "  - drop_fields: {fields: [x], when: {equals: {a: b}}}\n"
        "  - drop_fields: {fields: [message]}\n"
        "  - add_kubernetes_metadata: {host: x}\n  - add_host_metadata: ~\n  - script: {}\n"
    )
    (table,) = made.document["input"]
    assert table["processor"] == [
        {"include": {"pattern": "^stderr$", "field": "stream"}},
        {"drop": ["debug", "user.pin"]},
        {"rename": {"lvl": "log.level"}},
        {"add": {"app.name": "shop"}},
        {"exclude": {"pattern": "^DEBUG", "field": "message"}},
        {"exclude": {"pattern": "^DEBUG", "field": "message"}},
        {"include": {"pattern": r"^a\.b$", "field": "level"}},
        {"metadata": ["kubernetes"]},
    ]
    said = [key.partition("processors")[2] for key in remarks(made) if "processors" in key]
    assert said == [
        "[6].drop_event",
        "[7].drop_event",
        "[8].drop_fields",
        "[9].drop_fields: message",
        "[10].add_kubernetes_metadata",
        "[11].add_host_metadata",
        "[12].script",
    ]
    assert len(loaded(made).input[0].processor) == 8


def test_processors_of_all_inputs_come_after_their_own_and_are_said_once() -> None:
    made = import_filebeat(
        "filebeat.inputs:\n- {type: log, paths: [/a], exclude_lines: [x]}\n"
        "- {type: container, paths: [/b]}\n"
        "processors:\n- drop_event: {when: {contains: {message: 'kube probe'}}}\n"
        "- add_docker_metadata: ~\n- add_cloud_metadata: ~\n",
        "filebeat.yml",
        {},
    )
    plain, container = (table["processor"] for table in made.document["input"])
    probe = {"exclude": {"pattern": r"kube\ probe", "field": "message"}}
    assert plain == [{"exclude": {"pattern": "x"}}, probe]
    assert container == [probe, {"metadata": ["container"]}]
    assert [key for key in remarks(made) if key.startswith("processors")] == [
        "processors[1].add_docker_metadata",
        "processors[2].add_cloud_metadata",
    ]
    assert len(loaded(made).input) == 2


def test_what_the_agent_does_by_itself_is_named_in_one_remark() -> None:
    made = imported(
        "- {type: filestream, id: x, paths: [/a], clean_removed: true, close.reader.on_eof: true}\n"
    )
    text = remarks(made)["filebeat.inputs[0]"]
    assert text.startswith("needs no id, clean_removed, close.reader.on_eof: ")


def test_inactive_files_of_a_filestream_are_not_read_from_their_beginning() -> None:
    made = imported("- {type: filestream, paths: [/a], ignore_inactive: since_first_start}\n")
    assert made.document["input"][0]["start"] == "end"
    assert any(key.startswith("filebeat.inputs[0].ignore_inactive") for key in remarks(made))


def test_every_remark_is_a_comment_of_the_file() -> None:
    made = imported("- type: log\n  paths: [/a]\n  unknown_key: 1\n")
    text = toml_text(made, origin="filebeat.yml", state_dir="/state")
    assert all(remark.key in text for remark in made.remarks)
    assert tomllib.loads(text)["agent"] == {"state_dir": "/state"}


def test_variables_have_the_values_of_the_environment_or_their_defaults() -> None:
    made = imported("- type: log\n  paths: ['${LOGS}', '${MORE:/b}', '/${NONE}']\n", LOGS="/a")
    assert made.document["input"][0]["paths"] == ["/a", "/b", "/${NONE}"]
    assert "${NONE}" in remarks(made)


@pytest.mark.parametrize("text", ["a: [", "just text", "- 1", "services: {}"])
def test_what_is_no_configuration_of_filebeat_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"filebeat\.yml"):
        import_filebeat(text, "filebeat.yml", {})


@pytest.mark.parametrize(
    ("text", "path"), [("a: [", "t.yml"), ("a: [", "t.YAML"), ("filebeat.inputs: [", "t.conf")]
)
def test_yaml_with_a_mistake_is_refused_with_its_place(text: str, path: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{path}: line 1, column \d+ = .*: this is not YAML: "):
        import_filebeat(text, path, {})


@pytest.mark.parametrize(
    ("text", "path"), [("a: [", "t.conf"), ("[SERVICE]\n  Flush 1\n@x\n", "t.yml")]
)
def test_what_need_not_be_yaml_is_refused_as_no_shippers_file(text: str, path: str) -> None:
    with pytest.raises(ConfigError, match=f"^{path}: it has neither"):
        import_filebeat(text, path, {})


@pytest.mark.parametrize(
    ("level", "ours", "said"),
    [
        (0, {"compression": "none"}, False),
        (3, {"level": 3}, False),
        (6, {"level": 3}, True),
    ],
)
def test_the_level_of_compression_is_taken_over_as_far_as_it_goes(
    level: int, ours: dict[str, Any], said: bool
) -> None:
    made = import_filebeat(
        "filebeat.inputs: [{type: log, paths: [/a]}]\n"
        f"output.logstash: {{hosts: [a], compression_level: {level}}}\n",
        "filebeat.yml",
        {},
    )
    assert made.document["output"].items() >= ours.items()
    assert any("compression_level" in key for key in remarks(made)) == said
    assert loaded(made).output.level == ours.get("level", 1)


def test_an_input_of_another_type_is_told_its_counterpart_or_that_there_is_none() -> None:
    made = imported("- type: kafka\n- type: journald\n- type: unix\n")
    said = remarks(made)
    assert said["filebeat.inputs[0]"] == "of the type kafka: has no counterpart, and is left out"
    assert "[journald]" in said["filebeat.inputs[1]"]
    assert "[[socket]]" in said["filebeat.inputs[2]"]


def test_a_path_that_an_input_before_has_is_told() -> None:
    made = imported(
        "- {type: log, paths: [/a, /b]}\n- {type: log, paths: [/c, /b], tags: [x]}\n"
        "- {type: log, paths: [/d], exclude_files: [e$]}\n- {type: log, paths: [/d]}\n"
    )
    said = remarks(made)
    assert said["filebeat.inputs[1]"].startswith("gets nothing of /b: ")
    assert "filebeat.inputs[3]" not in said  # it gets what the one before leaves out


def test_a_processor_without_its_options_is_told() -> None:
    made = imported(
        "- type: log\n  paths: [/a]\n  processors:\n  - add_fields: {fields: [a]}\n"
        "  - drop_fields: [a]\n  - rename: {fields: {a: b}}\n  - add_locale\n"
    )
    said = remarks(made)
    assert "filebeat.inputs[0].processors[3]: add_locale" in said
    for key in ("processors[0].add_fields", "processors[1].drop_fields", "processors[2].rename"):
        assert "write [[input.processor]]" in said[f"filebeat.inputs[0].{key}"]


def test_patterns_that_narrow_the_paths_are_told() -> None:
    made = imported(
        "- type: filestream\n  paths: [/a/*]\n  prospector.scanner.include_files: ['^/a/x']\n"
    )
    (text,) = (text for key, text in remarks(made).items() if "include_files" in key)
    assert "write `paths`" in text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("exclude_files", "a|b"),
        ("prospector.scanner.exclude_files", "a|b"),
        ("prospector.scanner.include_files", "a"),
        ("max_bytes", "10MiB"),
        ("message_max_bytes", "10MiB"),
    ],
)
def test_a_setting_with_several_names_is_told_by_the_name_that_the_file_has(
    key: str, value: str
) -> None:
    made = import_filebeat(
        f"filebeat.prospectors:\n- {{type: log, paths: [/a], {key}: {value}}}\n{OUTPUT}", "f", {}
    )
    said = [name.partition(":")[0] for name in remarks(made)]
    assert f"filebeat.prospectors[0].{key}" in said


def test_what_is_said_of_workers_fits_an_output_with_one_window_in_flight() -> None:
    made = import_filebeat(
        "filebeat.inputs: [{type: log, paths: [/a]}]\n"
        "output.logstash: {hosts: [a], pipelining: 0, worker: 2}\n",
        "filebeat.yml",
        {},
    )
    assert made.document["output"]["windows_in_flight"] == 1
    assert "up to windows_in_flight" in remarks(made)["output.logstash.worker"]


def test_settings_of_standard_input_are_told() -> None:
    made = imported("- type: stdin\n  tags: [a]\n  multiline.pattern: ^x\n")
    assert made.document["stdin"] == {}
    assert {"filebeat.inputs[0].tags", "filebeat.inputs[0].multiline.pattern"} <= set(remarks(made))


def test_characters_that_toml_refuses_are_escaped_in_remarks() -> None:
    made = imported('- type: log\n  paths: [/a]\n  line_terminator: "x\\0"\n')
    assert loaded(made).input[0].paths == ["/a"]
