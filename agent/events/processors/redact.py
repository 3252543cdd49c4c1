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

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from agent.events.event import Event
from agent.events.processors.field_path import value_text
from agent.events.processors.redact_rules import RedactRule
from logdrive.model.records import REDACTED

_SHORT: Final = 4
"""A secret of fewer characters is replaced only where it is all of a field."""

_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))|"(")', re.DOTALL)
_WORD: Final = re.compile(r"\w+")


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
        secrets = found.secrets.copy()
        for secret, rule in secrets.items():
            # the same again, where the rule does not see it
            if len(secret) >= _SHORT:
                message = message.replace(secret, rule.replacement)
        fields = found.replace_fields(event.fields, secrets)
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

    def replace_fields(
        self, fields: dict[str, Any], secrets: dict[str, RedactRule]
    ) -> dict[str, Any]:
        """Return *fields* without secrets, and without *secrets*, those of the message."""
        known = [
            (form, rule)
            for secret, rule in secrets.items()
            for form in {secret, undo_escapes(secret)}
        ]
        replaced = _map_texts(
            fields,
            lambda text: self._replace_value(text, known),
            lambda name: self._replace_name(name, known),
        )
        assert isinstance(replaced, dict)
        return replaced

    def _replace(self, text: str) -> str:
        for number, rule in enumerate(self._rules):
            text, secrets = rule.replace(text)
            self._counts[number] += len(secrets)
            self.secrets.update(dict.fromkeys(secrets, rule))
        return text

    def _replace_name(self, text: str, known: list[tuple[str, RedactRule]]) -> str:
        text = self.replace_text(text)
        for secret, rule in known:
            if len(secret) >= _SHORT:
                text = text.replace(secret, rule.replacement)
        return text

    def _replace_value(self, text: str, known: list[tuple[str, RedactRule]]) -> str:
        text = self._replace_name(text, known)
        for secret, rule in known:
            if text == secret or (rule.with_context and _is_part(text, secret)):
                return rule.replacement
        return text


def _is_part(text: str, secret: str) -> bool:
    """Return whether *text* may be what is secret in *secret*, which has more in it."""
    return (len(text) >= _SHORT and text in secret) or text in _WORD.findall(secret)


def may_hide(text: str) -> bool:
    """Return whether *text* may have escapes, as JSON, key=value or CSV have."""
    return "\\" in text or '""' in text


def undo_escapes(text: str) -> str:
    """Return what *text* says once its escapes are undone."""
    return _ESCAPE.sub(_unescaped, text) if may_hide(text) else text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else match[3] or match[4]


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
