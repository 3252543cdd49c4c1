"""Replaces secrets: in the message, in all fields, and wherever else an event has its text.

Theory of operation. All texts of a batch of events are searched at once; only events with a match
are looked at one by one. Of such an event

- the message gets the replacements, also for the same text elsewhere in it. If it still has a
  secret once its escapes are undone, as `alice\\u0040example.org`, all of it is replaced;
- so does each field, its name too. A field that holds what was replaced in the message, or is a
  part of that, is replaced as well: `password=x` is one match in the message, and in the fields
  `x` is alone;
- its exact bytes are dropped (rule R2): they are what the message was, or more.

The event is flagged, so that nobody takes what is left for the bytes of the file.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from agent.events.event import Event
from agent.events.processors.escapes import may_hide, undo_escapes
from agent.events.processors.field_path import value_text
from agent.events.processors.known_secrets import SHORT, KnownSecrets
from agent.events.processors.redact_rules import RedactRule
from logdrive.model.records import REDACTED


class Redactor:
    """Replaces what its rules find."""

    def __init__(self, rules: Sequence[RedactRule]) -> None:
        self._rules = rules

    def process_events(self, events: list[Event]) -> list[Event]:
        """Replace the secrets of *events*; see `Processor`. All are kept."""
        texts: list[str] = []
        owners: list[int] = []  # the index of the event of each text
        for index, event in enumerate(events):
            for text in _all_texts(event):
                texts.append(text)
                owners.append(index)

        with_secrets: set[int] = set()
        for rule in self._rules:
            with_secrets.update(owners[number] for number in rule.search.matching(texts))
        for index in sorted(with_secrets):
            self._redact_event(events[index])
        return events

    def _redact_event(self, event: Event) -> None:
        """Replace what is secret in *event*, if anything is: a search may find what is not."""
        found = _Redaction(self._rules)
        message = found.replace_text(event.message)
        for secret, rule in found.secrets.items():
            # the same again, where the rule does not see it
            if len(secret) >= SHORT:
                message = message.replace(secret, rule.replacement)
        fields = found.replace_fields(event.fields)
        if event.original is not None:
            found.replace_text(event.original.decode(errors="replace"))
        if not found.matches:
            return

        event.message, event.fields = message, fields
        # the bytes of the file must not leave, nor be made of the message
        event.original, event.encoding = None, ""
        if REDACTED not in event.flags:
            event.flags = (*event.flags, REDACTED)
        found.count()


class _Redaction:
    """What is replaced in one event."""

    def __init__(self, rules: Sequence[RedactRule]) -> None:
        self._rules = rules
        self._counts = [0] * len(rules)  # the matches of each rule
        self.secrets: dict[str, RedactRule] = {}  # and the rule that found each
        self.rests: dict[str, RedactRule] = {}  # texts that have secrets in them

    @property
    def matches(self) -> int:
        """How many matches there were."""
        return sum(self._counts)

    def count(self) -> None:
        """Add to the counters of the rules."""
        for rule, matches in zip(self._rules, self._counts, strict=True):
            rule.counter.matches += matches
            rule.counter.events += bool(matches)

    def replace_text(self, text: str) -> str:
        """Return *text* without secrets; also without those that escapes hide."""
        text = self._replace(text)
        if may_hide(text):
            shown, before = undo_escapes(text), self._counts.copy()
            self._replace(shown)
            for rule, count, earlier in zip(self._rules, self._counts, before, strict=True):
                if count > earlier:
                    return rule.replacement
        return text

    def replace_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Return *fields* without secrets, and without those of the message."""
        known = KnownSecrets(self.secrets, self.rests)
        replaced = _map_texts(
            fields,
            lambda text: known.replace_value(self.replace_text(text)),
            lambda name: known.replace_in(self.replace_text(name)),
        )
        assert isinstance(replaced, dict)
        return replaced

    def _replace(self, text: str) -> str:
        for number, rule in enumerate(self._rules):
            replaced = rule.replace(text)
            if replaced is None:
                continue
            text = replaced.text
            self._counts[number] += replaced.matches
            self.secrets.update(dict.fromkeys(replaced.secrets, rule))
            if replaced.rest:
                self.rests[replaced.rest] = rule
        return text


def _all_texts(event: Event) -> Iterator[str]:
    """Yield all texts of *event* in which a secret may be."""
    yield event.message
    if may_hide(event.message):
        yield undo_escapes(event.message)
    if event.original is not None:
        original = event.original.decode(errors="replace")
        yield original
        if may_hide(original):
            yield undo_escapes(original)
    if event.fields:
        yield from _texts_of(event.fields)


def _texts_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if may_hide(value):
            yield undo_escapes(value)
    elif isinstance(value, dict):
        yield from value
        for inside in value.values():
            yield from _texts_of(inside)
    elif isinstance(value, list | tuple):
        for inside in value:
            yield from _texts_of(inside)
    elif value is not None and not isinstance(value, bool):
        yield value_text(value)


def _map_texts(
    value: Any, replace: Callable[[str], str], replace_name: Callable[[str], str]
) -> Any:
    """Return *value* with its texts and names replaced; a number only where its text changes."""
    if isinstance(value, str):
        return replace(value)
    if isinstance(value, dict):
        return {
            replace_name(name): _map_texts(inside, replace, replace_name)
            for name, inside in value.items()
        }
    if isinstance(value, list | tuple):
        return [_map_texts(inside, replace, replace_name) for inside in value]
    if value is None or isinstance(value, bool):
        return value
    text = value_text(value)
    replaced = replace(text)
    return value if replaced == text else replaced
