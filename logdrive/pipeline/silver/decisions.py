"""Which format the lines of a source have: decided once, from its path or its first lines.

A decision stands in the table `sources`, and counts until silver is rebuilt. The lines of a source
of our agents have one format. A foreign peer is one source with many files, so there each path has
its own.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import orjson
import pyarrow as pa

from logdrive.pipeline.formats.catalog import make_format, recognize_all
from logdrive.pipeline.formats.format import FormatOptions, LogFormat, LogLines
from logdrive.pipeline.silver.config import AUTO, FormatRule, SilverConfig
from logdrive.pipeline.silver.schema import SOURCES_SCHEMA, TEXT

_SURE_LINES = 20  # a source with so many lines that no format reads is text for good
_PLACES = re.compile(r"(?:\d[\d.]*|logs?|var|opt|srv|home|mnt|data|containers|pods|tmp|archive)")
"""Names of directories that say nothing of a service."""
_CONTAINER = re.compile(r".*/containers/[^/]+_[^/]+_([^/]+)-[0-9a-f]{12,}\.log")
_POD = re.compile(r".*/pods/[^/]+_[^/]+_[^/]+/([^/]+)/\d+\.log[^/]*")
_SUFFIX = re.compile(r"(?:\.(?:log|txt|json|out|err|gz|zst|\d+)|-\d{8,}|_\d{8,})+$")

CONFIG: Final = "config"
RECORD: Final = "record"
PATH: Final = "path"

DecisionKey = tuple[str | None, str | None]
"""A source, and the path of a foreign peer's file; None for files of our agents."""


@dataclass(frozen=True, slots=True)
class FormatDecision:
    """What is known of the lines of one source, or of one path of a foreign peer."""

    format: str
    service: str | None
    options: FormatOptions = field(default_factory=FormatOptions)
    named_table: str | None = None  # by the configuration; None: the format's own
    service_by: str = PATH
    """What the service is from: `CONFIG`, `RECORD` or `PATH`. What a line itself calls its service
    comes after the configuration, and before the others.
    """

    @property
    def kind(self) -> str:
        """Tells it from decisions whose lines are parsed otherwise, or go to another table."""
        return f"{self.format} {self.options} {self.named_table}"

    def make(self) -> LogFormat | None:
        """Return the format; None for lines that are only text."""
        return None if self.format == TEXT else make_format(self.format, self.options)

    @property
    def table(self) -> str:
        """The silver table of the lines."""
        made = self.make()
        return self.named_table or (made.table if made else TEXT)


@dataclass(frozen=True, slots=True)
class NewSource:
    """A source, or a path of a foreign peer, whose format is still to be decided."""

    key: DecisionKey
    host: str | None
    path: str | None
    sample: LogLines
    labels: Mapping[str, Any]
    """What its agent says of it: the attributes of its first batch."""


class Decisions:
    """All decisions, by source."""

    def __init__(self, config: SilverConfig, rows: Iterable[Mapping[str, Any]]) -> None:
        self._config = config
        self._known: dict[DecisionKey, FormatDecision] = {}
        for row in rows:
            key = (row["source"], row["path"] if row["by_path"] else None)
            options = msgspec.convert(orjson.loads(row["options"] or "{}"), FormatOptions)
            self._known[key] = FormatDecision(
                row["format"], row["service"], options, row["table"], row["service_by"]
            )

    def find(self, key: DecisionKey) -> FormatDecision | None:
        """Return the decision on *key*, None if there is none yet."""
        return self._known.get(key)

    def one_of_each_kind(self) -> list[FormatDecision]:
        """Return one decision of each `FormatDecision.kind` that there is."""
        return list({decision.kind: decision for decision in self._known.values()}.values())

    def decide(self, new: Sequence[NewSource]) -> list[tuple[FormatDecision, bool]]:
        """Return a decision on each of *new*, and whether it is for good.

        Few lines that no format reads are text, but leave the source undecided.
        """
        rules = [self._config.rule_for(one.path) for one in new]
        unnamed = [number for number, rule in enumerate(rules) if rule.format == AUTO]
        recognized = recognize_all([new[number].sample for number in unnamed])
        names: dict[int, str | None] = dict(zip(unnamed, recognized, strict=True))

        decided = []
        for number, (one, rule) in enumerate(zip(new, rules, strict=True)):
            name = names.get(number) if rule.format == AUTO else rule.format
            sure = name is not None or len(one.sample) >= _SURE_LINES
            service, service_by = _service(one, rule)
            decision = FormatDecision(name or TEXT, service, rule.options, rule.table, service_by)
            if sure:
                self._known[one.key] = decision
            decided.append((decision, sure))
        return decided


def _service(new: NewSource, rule: FormatRule) -> tuple[str | None, str]:
    """Return the service of *new*, and what says so."""
    if rule.service is not None:
        return rule.service, CONFIG
    if (named := named_service(new.labels, new.sample)) is not None:
        return named, RECORD
    return path_service(new.path), PATH


def decision_rows(decided: Iterable[tuple[NewSource, FormatDecision]], now_ms: int) -> pa.Table:
    """Return the rows of `sources` for new decisions."""
    return pa.Table.from_pylist(
        [
            {
                "source": new.key[0],
                "path": new.path,
                "by_path": new.key[1] is not None,
                "host": new.host,
                "format": decision.format,
                "service": decision.service,
                "service_by": decision.service_by,
                "options": orjson.dumps(msgspec.to_builtins(decision.options)).decode(),
                "table": decision.table,
                "decided": now_ms * 1000,
            }
            for new, decision in decided
        ],
        schema=SOURCES_SCHEMA,
    )


def named_service(labels: Mapping[str, Any], sample: LogLines) -> str | None:
    """Return the service that a source names itself: its agent's fields, or its first record's.

    These are `service`, `service.name` and `fields.service`, as Beats write them.
    """
    first = sample.fields[0].as_py() if len(sample) else None
    for said in (labels, orjson.loads(first) if first else {}):
        fields = said.get("fields")
        for value in (
            fields.get("service") if isinstance(fields, dict) else None,
            said.get("service.name"),
            said.get("service"),
        ):
            name = value.get("name") if isinstance(value, dict) else value
            if isinstance(name, str) and name:
                return name
    return None


def path_service(path: str | None) -> str | None:
    """Return a service for the files at *path*.

    That is the container, or the last directory that is not one for logs of all kinds, or the
    file's name without what rotation adds.
    """
    if not path:
        return None
    contained = _CONTAINER.fullmatch(path) or _POD.fullmatch(path)
    if contained:
        return contained[1]
    *directories, name = path.replace("\\", "/").split("/")
    for directory in reversed(directories):
        if directory and not _PLACES.fullmatch(directory):
            return directory
    return _SUFFIX.sub("", name) or name
