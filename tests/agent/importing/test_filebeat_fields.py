"""Fields of a filebeat.yml stand in an event where Filebeat puts them."""

from typing import Any

import orjson
import pytest

from agent.config.config import AgentConfig
from agent.events.event import Event
from agent.events.forms import FullForm
from agent.events.processors.counters import RuleCounters
from agent.events.processors.make import make_processors
from agent.importing.filebeat import import_filebeat
from agent.importing.imported import Imported
from agent.importing.toml_text import toml_text
from logdrive.config.load import parse_config

LOGSTASH = "output.logstash.hosts: [a]\n"
UNDER_ROOT = "fields_under_root: true"


def imported(inputs: str, rest: str = LOGSTASH) -> Imported:
    return import_filebeat(f"filebeat.inputs:\n{inputs}{rest}", "filebeat.yml", {})


def record(made: Imported) -> dict[str, Any]:
    """Return the record that Logstash gets of a line."""
    text = toml_text(made, origin="filebeat.yml", state_dir="/state")
    table = parse_config("agent.toml", text, AgentConfig).input[0]
    events = [Event(0, 5, "line", fields={})]
    for processor in make_processors(table, RuleCounters(), lambda: 0.0):
        events = processor.process_events(events)
    common = {"fields": table.fields} if table.fields else {}
    decoded = orjson.loads(FullForm(common, "/a", "id").encode_event(events[0], 0))
    assert isinstance(decoded, dict)
    return decoded


def remarks(made: Imported) -> dict[str, str]:
    return {remark.key: remark.text for remark in made.remarks}


def test_fields_stand_below_fields_or_at_the_top_where_they_are_under_root() -> None:
    fields = "fields: {app: shop, team.name: a}"
    below = record(imported(f"- {{type: log, paths: [/a], {fields}}}\n"))
    assert below["fields"] == {"app": "shop", "team": {"name": "a"}}
    made = imported(f"- {{type: log, paths: [/a], {fields}, {UNDER_ROOT}}}\n")
    at_top = record(made)
    assert (at_top["app"], at_top["team"]) == ("shop", {"name": "a"})
    assert "fields" not in at_top
    assert "is a processor" in remarks(made)["filebeat.inputs[0].fields_under_root"]


def test_a_field_that_events_have_themselves_stays_below_with_a_remedy_for_logstash() -> None:
    made = imported(
        f"- {{type: log, paths: [/a], {UNDER_ROOT}, fields: "
        "{host: h, event: {dataset: d}, log: {offset: 9}, message: m}}\n"
    )
    got = record(made)
    assert got["fields"] == {"host": "h", "log": {"offset": 9}, "message": "m"}
    assert (got["event"], got["log"]["offset"], got["message"]) == ({"dataset": "d"}, 0, "line")
    text = remarks(made)["filebeat.inputs[0].fields_under_root: log.offset"]
    assert 'rename => { "[fields][log][offset]" => "[log][offset]" }' in text


@pytest.mark.parametrize("of_all", [UNDER_ROOT, "fields_under_root: false"])
@pytest.mark.parametrize("own", [UNDER_ROOT, "fields_under_root: false"])
def test_fields_of_an_input_go_before_those_of_all_inputs(of_all: str, own: str) -> None:
    got = record(
        imported(
            f"- {{type: log, paths: [/a], fields: {{app.name: own}}, {own}}}\n",
            f"fields: {{app: {{name: all, id: 1}}}}\n{of_all}\n{LOGSTASH}",
        )
    )
    top, below = got.get("app", {}), got.get("fields", {}).get("app", {})
    assert (top if own == UNDER_ROOT else below)["name"] == "own"
    assert (top if of_all == UNDER_ROOT else below)["id"] == 1


def test_processors_find_fields_that_are_under_root() -> None:
    made = imported(
        f"- {{type: log, paths: [/a], {UNDER_ROOT}, fields: {{app: shop}}, "
        "processors: [{rename: {fields: [{from: app, to: service}]}}]}\n"
    )
    assert record(made)["service"] == "shop"


def test_a_receiver_of_logdrive_gets_fields_once_a_source_and_a_note_says_so() -> None:
    made = imported(
        f"- {{type: log, paths: [/a], fields: {{app: shop}}, {UNDER_ROOT}}}\n",
        "output.elasticsearch.hosts: [es]\n",
    )
    assert made.document["input"] == [{"paths": ["/a"], "fields": {"app": "shop"}}]
    assert "is left out" in remarks(made)["filebeat.inputs[0].fields_under_root"]


def test_fields_that_can_not_be_added_stay_below_and_a_note_says_so() -> None:
    made = imported(f"- {{type: log, paths: [/a], fields: {{a..b: c}}, {UNDER_ROOT}}}\n")
    assert "processor" not in made.document["input"][0]
    assert "empty part" in remarks(made)["filebeat.inputs[0].fields_under_root"]


def test_a_field_without_a_value_is_left_out_and_a_note_says_so() -> None:
    made = imported("- {type: log, paths: [/a], fields: {a: null, b: 1, c: [null]}}\n")
    assert made.document["input"][0]["fields"] == {"b": 1}
    for name in ("a", "c"):
        said = remarks(made)[f"filebeat.inputs[0].fields.{name}"]
        assert said == "is left out: it has no value"
