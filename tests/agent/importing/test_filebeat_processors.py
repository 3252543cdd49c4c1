"""Processors of Filebeat are taken over as far as they go, and what is left out is told."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.agent.importing.world import imported, loaded, remarks


def made_of(*processors: str, **keys: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the input that is made with *processors*, and what is said of these."""
    listed = "".join(f"  - {processor}\n" for processor in processors)
    others = "".join(f"  {key}: {value}\n" for key, value in keys.items())
    made = imported(f"- type: log\n  paths: [/a]\n{others}  processors:\n{listed}")
    assert loaded(made).input
    (table,) = made.document["input"]
    return table, dict(_of_processors(remarks(made)))


def _of_processors(said: dict[str, str]) -> Iterator[tuple[str, str]]:
    for key, text in said.items():
        if "processors" in key:
            yield key.removeprefix("filebeat.inputs[0].processors"), text


@pytest.mark.parametrize(
    "name", ["add_cloud_metadata", "add_locale", "dissect", "timestamp", "decode_json_fields"]
)
def test_a_processor_without_a_counterpart_is_told_so(name: str) -> None:
    table, said = made_of(f"{name}: {{a: b}}")
    assert table == {"paths": ["/a"]}
    assert said[f"[0].{name}"].startswith("has no counterpart")


def test_a_condition_is_told_once_a_processor() -> None:
    table, said = made_of(
        "{if: {equals: {a: b}}, then: [drop_event: ~], else: [drop_fields: {fields: [c]}]}",
        "add_tags: {tags: [x], when: {equals: {a: b}}}",
    )
    assert table == {"paths": ["/a"]}
    assert sorted(said) == ["[0].if", "[1].add_tags"]
    assert all("has a condition" in text for text in said.values())


def test_tags_that_a_processor_adds_come_after_those_of_the_input() -> None:
    table, said = made_of("add_tags: {tags: [b, c]}", "add_tags.tags: d", tags="[a]")
    assert table == {"paths": ["/a"], "tags": ["a", "b", "c", "d"]}
    assert not said
    table, said = made_of("add_tags: {tags: [b], target: environment}")
    assert "tags" not in table
    assert "write `tags`" in said["[0].add_tags"]


def test_labels_are_added_unless_filebeat_would_name_them_otherwise() -> None:
    table, said = made_of("add_labels: {labels: {team: shop, size: 3}}")
    assert table["processor"] == [{"add": {"labels.team": "shop", "labels.size": 3}}]
    assert not said
    for labels in ("{a.b: c}", "{a: [1]}", "x"):
        table, said = made_of(f"add_labels: {{labels: {labels}}}")
        assert table == {"paths": ["/a"]}
        assert 'add = { "labels.' in said["[0].add_labels"]


def test_of_fields_those_are_taken_over_that_can_be() -> None:
    table, said = made_of(
        "drop_fields: {fields: [message, debug]}",
        "rename: {fields: [{from: message, to: text}, {from: a, to: b}]}",
        "add_fields: {target: '', fields: {x: ~, y: 1, z: [~]}}",
        "drop_fields: {fields: [message]}",
    )
    assert table["processor"] == [{"drop": ["debug"]}, {"rename": {"a": "b"}}, {"add": {"y": 1}}]
    assert sorted(said) == [
        "[0].drop_fields: message",
        "[1].rename: message",
        "[2].add_fields: x",
        "[2].add_fields: z",
        "[3].drop_fields: message",
    ]


def test_keys_that_each_event_has_are_told_apart_from_fields_of_its_line() -> None:
    table, said = made_of(
        "drop_fields: {fields: [host, agent, log.offset, user]}",
        "rename: {fields: [{from: host.name, to: tags}, {from: lvl, to: log.level}]}",
        "add_fields: {target: '', fields: {host.name: h, fields.a: 1}}",
    )
    assert table["processor"] == [
        {"drop": ["host", "agent", "log.offset", "user"]},
        {"rename": {"host.name": "tags", "lvl": "log.level"}},
        {"add": {"host.name": "h", "fields.a": 1}},
    ]
    assert list(said) == [
        "[0].drop_fields: host, agent, log.offset",
        "[1].rename: host.name",
        "[1].rename: tags",
        "[2].add_fields: host.name",
    ]


@pytest.mark.parametrize("field", ["log.file.path", "host.name", "tags", "fields.env"])
def test_a_condition_on_what_each_event_says_drops_nothing(field: str) -> None:
    """No processor sees it, so that `include` would drop all."""
    condition = f"contains: {{{field}: x}}"
    table, said = made_of(
        f"drop_event: {{when: {{not: {{{condition}}}}}}}", f"drop_event: {{when: {{{condition}}}}}"
    )
    assert table == {"paths": ["/a"]}
    assert all(f"{field} is said of each event" in text for text in said.values())
    assert len(said) == 2
