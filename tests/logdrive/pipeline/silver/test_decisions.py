"""What decides on a source: the configuration, its path, and its own words."""

from collections.abc import Mapping

import pyarrow as pa
import pytest

from logdrive.config.load import parse_config
from logdrive.errors import ConfigError
from logdrive.pipeline.config import PipelineConfig
from logdrive.pipeline.decode.schema import TIME
from logdrive.pipeline.formats.format import LogLines
from logdrive.pipeline.silver.config import FormatRule, SilverConfig
from logdrive.pipeline.silver.decisions import (
    CONFIG,
    PATH,
    RECORD,
    Decisions,
    NewSource,
    path_service,
)

BASE = '[pipeline]\nfrom = "pravega://h:1/a/b"\nto = "/t"\n'


def new_source(
    path: str | None, fields: str | None = None, labels: Mapping[str, object] | None = None
) -> NewSource:
    lines = LogLines(
        pa.array(["a line"]),
        pa.array([0], TIME),
        pa.array([fields], pa.string()),
        pa.array(["s"]),
        pa.array([0]),
        pa.array([7]),
    )
    return NewSource(("s", None), "web-1", path, lines, labels or {})


@pytest.mark.parametrize(
    ("path", "service"),
    [
        ("/var/log/nginx/access.log", "nginx"),
        ("/var/log/syslog", "syslog"),
        ("/var/log/syslog.1", "syslog"),
        ("/var/log/app.log-20261123.gz", "app"),
        ("/srv/shop/logs/app.log", "shop"),
        ("/var/log/containers/web-7f_default_nginx-0123456789abcdef.log", "nginx"),
        ("/var/log/pods/default_web-7f_0f2/nginx/0.log", "nginx"),
        ("C:\\logs\\shop\\app.log", "shop"),
        (None, None),
    ],
)
def test_a_path_says_the_service(path: str | None, service: str | None) -> None:
    assert path_service(path) == service


def test_a_service_is_the_configured_one_then_the_sources_own_then_the_paths() -> None:
    decisions = Decisions(SilverConfig(format=(FormatRule(path="/srv/*", service="set"),)), [])
    own = '{"service":{"name":"own"}}'
    cases = [
        (new_source("/srv/a/b.log", own), "set", CONFIG),
        (new_source("/opt/a/b.log", own), "own", RECORD),
        (new_source("/opt/a/b.log", labels={"fields": {"service": "agent"}}), "agent", RECORD),
        (new_source("/opt/a/b.log"), "a", PATH),
    ]
    for source, service, said_by in cases:
        ((decision, _),) = decisions.decide([source])
        assert (decision.service, decision.service_by) == (service, said_by)


def test_the_first_format_whose_path_matches_counts() -> None:
    config = parse_config(
        "pipeline.toml",
        BASE
        + """
[[silver.format]]
path = "/var/log/nginx/*"
format = "access"
zone = "Europe/Berlin"

[[silver.format]]
path = "*"
format = "text"
""",
        PipelineConfig,
    ).silver
    assert config.rule_for("/var/log/nginx/access.log").format == "access"
    assert config.rule_for("/var/log/nginx/deep/access.log").zone == "Europe/Berlin"
    assert config.rule_for("/var/log/other.log").format == "text"
    assert config.rule_for(None).format == "auto"


@pytest.mark.parametrize(
    ("setting", "key", "remedy"),
    [
        ('format = "acces"', "silver.format[0].format", "take one of auto, text, access"),
        ('zone = "Europe/Berlln"', "silver.format[0].zone", "Berlln"),
        ('format = "json"\ncolumns = {user = "text"}', "silver.format[0].columns", "string"),
        ('format = "json"\ncolumns = {user = "string"}', "silver.format[0].columns", "table = "),
        *(
            (f'{line}\ncolumns = {{user = "string"}}\ntable = "orders"', *of_columns)
            for line in ('format = "access"', 'format = "text"', 'format = "auto"', "")
            for of_columns in [("silver.format[0].columns", 'format = "json" or "logfmt"')]
        ),
        ('table = "quarantine"', "silver.format[0].table", "take another name"),
        (
            'format = "json"\ntable = "access"',
            "silver.format[0].table",
            "access is the table of the format access,",
        ),
        ('format = "text"\ntable = "container"', "silver.format[0].table", "cri or docker"),
        (
            'format = "json"\ntable = "json"\ncolumns = {user = "string"}',
            "silver.format[0].table",
            "take another name",
        ),
        ('table = "orders"', "silver.format[0].table", 'as in format = "json"'),
        ('rest = "variant"', "silver.format[0].rest", "move rest to [silver]"),
        *(
            (f'format = "{name}"\nrest = "text"', "silver.format[0].rest", "leave rest out")
            for name in ("access", "cri", "docker")
        ),
        ('format = "json"\nrest = "json"', "silver.format[0].rest", "variant"),
        ('table = "My-Table"', "silver.format[0].table", ""),
        ('pattern = "x"', "silver.format[0].pattern", ""),
    ],
)
def test_a_mistake_names_its_key_and_what_to_write(setting: str, key: str, remedy: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(
            "pipeline.toml", f'{BASE}[[silver.format]]\npath = "*"\n{setting}\n', PipelineConfig
        )
    (mistake,) = error.value.mistakes
    assert mistake.key == key
    assert remedy in mistake.remedy


@pytest.mark.parametrize(
    ("line_format", "table"),
    [("access", "access"), ("docker", "container"), ("text", "notes"), ("json", "json")],
)
def test_a_format_may_name_the_table_that_is_its_own(line_format: str, table: str) -> None:
    assert FormatRule(path="*", format=line_format, table=table).table == table


def test_two_formats_for_one_table_are_refused() -> None:
    rule = '[[silver.format]]\npath = "*"\nformat = "json"\ntable = "orders"\ncolumns = {%s}\n'
    with pytest.raises(ConfigError, match="name another table"):
        parse_config(
            "pipeline.toml", BASE + rule % 'a = "int"' + rule % 'b = "int"', PipelineConfig
        )


def test_two_types_of_rest_for_one_table_are_refused() -> None:
    rule = '[[silver.format]]\npath = "*"\nformat = "json"\n%s\nrest = "%s"\n'
    with pytest.raises(ConfigError, match="the table json is named with both types"):
        parse_config(
            "pipeline.toml",
            BASE + rule % ("", "text") + rule % ('table = "json"', "variant"),
            PipelineConfig,
        )


def test_a_table_has_the_rest_of_its_format_or_else_that_of_all() -> None:
    config = SilverConfig(
        rest="variant",
        format=(
            FormatRule(path="a", format="json", table="orders"),
            FormatRule(path="b", format="json", table="orders", rest="text"),
            FormatRule(path="c", format="syslog", rest="text"),
            FormatRule(path="d", format="text", rest="text"),
        ),
    )
    rests = {name: config.rest_of(name) for name in ("orders", "syslog", "text", "json")}
    assert rests == {"orders": "text", "syslog": "text", "text": "text", "json": "variant"}
    assert SilverConfig().rest_of("json") is None
