"""Lines of Filebeat's inputs are joined and read as Filebeat does it, or a note says how not."""

import pytest

from agent.config.formats import FormatTable
from agent.importing.imported import Imported
from tests.agent.importing.world import imported, loaded, remarks


@pytest.mark.parametrize("kind", ["while_pattern", "while-pattern"])
@pytest.mark.parametrize("negate", ["true", "false"])
def test_lines_that_are_joined_with_each_other_alone_are_told_and_left_out(
    kind: str, negate: str
) -> None:
    options = f"{{type: {kind}, pattern: '^x', negate: {negate}}}"
    made = imported(
        f"- type: filestream\n  paths: [/a]\n  parsers: [multiline: {options}]\n"
        f"- type: log\n  paths: [/b]\n  multiline: {options}\n"
    )
    assert made.document["input"] == [{"paths": ["/a"]}, {"paths": ["/b"]}]
    for key in ("filebeat.inputs[0].parsers[0].multiline", "filebeat.inputs[1].multiline"):
        said = remarks(made)[key]
        assert said.startswith(f"of the type {kind} has no counterpart: left out")
        assert "`continue`" in said


MULTILINE = "{pattern: '^x', negate: true, match: after}"


def test_lines_are_joined_before_json_is_read_as_in_filebeat() -> None:
    made = imported(
        f"- type: filestream\n  paths: [/a]\n  parsers: [multiline: {MULTILINE}, ndjson: {{}}]\n"
    )
    (table,) = made.document["input"]
    assert table["multiline"] == {"start": "^x"}
    assert table["format"]["type"] == "json"
    assert not any("parsers" in key for key in remarks(made))


@pytest.mark.parametrize(
    ("before", "form"),
    [("ndjson: {message_key: m}", {"type": "json", "bad_lines": "keep"}), ("syslog: {}", "syslog")],
)
def test_what_filebeat_joins_by_the_text_of_a_field_is_told_and_not_joined(
    before: str, form: object
) -> None:
    made = imported(
        f"- type: filestream\n  paths: [/a]\n  parsers: [{before}, multiline: {MULTILINE}]\n"
    )
    assert made.document["input"] == [{"paths": ["/a"], "format": form}]
    said = remarks(made)["filebeat.inputs[0].parsers[1].multiline"]
    assert said.startswith("is left out, so each line is an event: ")


def test_a_log_input_with_json_and_multiline_joins_by_the_text_of_a_field_too() -> None:
    made = imported(
        f"- type: log\n  paths: [/a]\n  multiline: {MULTILINE}\n  json: {{keys_under_root: true}}\n"
    )
    form = {"type": "json", "bad_lines": "keep"}
    assert made.document["input"] == [{"paths": ["/a"], "format": form}]
    assert "`json`" in remarks(made)["filebeat.inputs[0].multiline"]


@pytest.mark.parametrize(
    ("parsers", "kept"),
    [
        (["multiline", "container"], {"multiline": {"start": "^x"}}),
        (["multiline", "multiline"], {"multiline": {"start": "^x"}}),
        (["syslog", "container"], {"format": "syslog"}),
        (["container", "container"], {"format": "auto"}),
    ],
)
def test_parsers_in_an_order_that_the_agent_does_not_have_are_told(
    parsers: list[str], kept: dict[str, object]
) -> None:
    listed = ", ".join(f"{one}: {MULTILINE if one == 'multiline' else '{}'}" for one in parsers)
    made = imported(f"- type: filestream\n  paths: [/a]\n  parsers: [{listed}]\n")
    assert made.document["input"] == [{"paths": ["/a"]} | kept]
    said = remarks(made)["filebeat.inputs[0].parsers[1]." + parsers[1]]
    assert said.startswith("is left out: the agent can't do it after")


@pytest.mark.parametrize("kind", ["container", "docker"])
def test_json_that_a_container_writes_is_read_as_a_filestream_reads_it(kind: str) -> None:
    made = imported(
        f"- type: {kind}\n  paths: [/a]\n  format: cri\n  stream: stderr\n"
        "  json: {keys_under_root: true, add_error_key: true, message_key: m}\n"
        "- type: filestream\n  paths: [/a]\n"
        "  parsers: [container: {format: cri, stream: stderr}, ndjson: {add_error_key: true}]\n"
    )
    ours, stream = made.document["input"]
    assert ours["format"] == {"type": "cri", "content": "json", "bad_lines": "mark"}
    assert ours["processor"] == [{"include": {"pattern": "^stderr$", "field": "stream"}}]
    assert ours == {**stream, "paths": ours["paths"]}
    assert loaded(made).input[0].format is not None
    assert "filebeat.inputs[0].json.message_key" in remarks(made)


def test_json_of_a_container_that_filebeat_has_below_a_key_is_told() -> None:
    made = imported(
        "- type: container\n  paths: [/a]\n  json.add_error_key: false\n"
        "- type: filestream\n  paths: [/b]\n  parsers: [container: {}, ndjson: {target: app}]\n"
    )
    form = {"type": "auto", "content": "json", "bad_lines": "keep"}
    assert [table["format"] for table in made.document["input"]] == [form, form]
    said = remarks(made)
    assert "at the top, " in said["filebeat.inputs[0].json"]
    assert said["filebeat.inputs[1].parsers[1].ndjson"].endswith("not below `app`")


def test_syslog_of_a_container_is_read_and_json_in_it_is_told() -> None:
    made = imported(
        "- type: filestream\n  paths: [/a]\n  parsers: [container: {}, syslog: {}, ndjson: {}]\n"
        "- type: filestream\n  paths: [/b]\n  parsers: [syslog: {}, ndjson: {}]\n"
    )
    both, syslog = (table.format for table in loaded(made).input)
    assert both == FormatTable(type="auto", content="syslog")
    assert syslog == FormatTable(type="syslog", content="json", bad_lines="keep")
    assert remarks(made)["filebeat.inputs[0].parsers[2].ndjson"].startswith("is left out: ")


def multiline(options: str) -> Imported:
    return imported(f"- type: log\n  paths: [/a]\n  multiline: {{{options}}}\n")


def test_what_becomes_of_lines_beyond_a_limit_is_told() -> None:
    made = multiline("pattern: '^x', negate: true, max_lines: 9")
    assert made.document["input"][0]["multiline"] == {"start": "^x", "max_lines": 9}
    assert "are another event, and sent" in remarks(made)["filebeat.inputs[0].multiline.max_lines"]
    said = remarks(multiline("pattern: '^x', timeout: 3s"))
    assert not any("multiline" in key for key in said)


@pytest.mark.parametrize("limit", ["max_lines: 0", "max_lines: 1", "max_lines: many", "timeout: 0"])
def test_a_limit_that_the_agent_does_not_take_is_left_out_and_told(limit: str) -> None:
    made = multiline(f"pattern: '^x', {limit}")
    assert made.document["input"][0]["multiline"] == {"continue": "^x"}
    assert loaded(made).input[0].multiline is not None
    key = limit.partition(":")[0]
    (said,) = (text for name, text in remarks(made).items() if f"multiline.{key}: " in name)
    assert said.startswith("is left out; as max_")


def test_how_a_flush_pattern_differs_is_told() -> None:
    made = multiline("pattern: '^x', negate: true, flush_pattern: 'y$'")
    assert made.document["input"][0]["multiline"] == {"start": "^x", "end": "y$"}
    said = remarks(made)["filebeat.inputs[0].multiline.flush_pattern"]
    assert said.startswith("is `end`: lines between an end and the next start are an event each")


def test_a_flush_pattern_that_can_not_be_used_is_left_out_and_told() -> None:
    made = multiline("pattern: '^x', negate: true, flush_pattern: '(?=y)'")
    assert made.document["input"][0]["multiline"] == {"start": "^x"}
    assert "filebeat.inputs[0].multiline.flush_pattern: (?=y)" in remarks(made)
    made = multiline("pattern: '^x', flush_pattern: y")
    assert "beside a start" in remarks(made)["filebeat.inputs[0].multiline.flush_pattern"]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ("json: {message_key: log, keys_under_root: true}", "log"),
        ("json: {message_key: message}", "json.message"),
        ("parsers: [syslog: {}]", "content"),
        ("parsers: [ndjson: {message_key: log, target: app}]", "app.log"),
        ("parsers: [container: {}, ndjson: {message_key: log}]", "log"),
    ],
)
def test_lines_are_filtered_by_the_field_that_filebeat_searches(settings: str, field: str) -> None:
    kind = "filestream" if "parsers" in settings else "log"
    made = imported(
        f"- type: {kind}\n  paths: [/a]\n  {settings}\n  include_lines: [^x]\n"
        "  exclude_lines: [y]\n"
    )
    assert made.document["input"][0]["processor"] == [
        {"include": {"pattern": "^x", "field": field}},
        {"exclude": {"pattern": "y", "field": field}},
    ]
    for key in ("include_lines", "exclude_lines"):
        assert remarks(made)[f"filebeat.inputs[0].{key}"].startswith(f"is searched in `{field}`")
    assert loaded(made).input


@pytest.mark.parametrize("options", ["message_key: message", "overwrite_keys: true"])
def test_filters_of_a_text_that_the_agent_does_not_have_alone_are_told(options: str) -> None:
    made = imported(
        f"- type: log\n  paths: [/a]\n  include_lines: [^x]\n"
        f"  json: {{keys_under_root: true, {options}}}\n"
    )
    assert "processor" not in made.document["input"][0]
    assert remarks(made)["filebeat.inputs[0].include_lines"].startswith("is left out: ")
