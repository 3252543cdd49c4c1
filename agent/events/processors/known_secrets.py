"""Finds in the fields of an event what was replaced in its message.

The time that takes is limited: a line may have thousands of secrets, and thousands of fields.
"""

import re
from collections.abc import Mapping
from typing import Final

from agent.events.processors.escapes import undo_escapes
from agent.events.processors.redact_rules import RedactRule
from logdrive.model.units import MIB

SHORT: Final = 4
"""A secret of fewer characters is replaced only where it is all of a field."""

_FEW: Final = 16
"""So few secrets are looked for in each field without more ado."""

_MOST_STEPS: Final = 64 * MIB
"""Limit on the characters that are looked at in one event, again for each secret."""

_STEPS_OF_CALL: Final = 256
"""Characters that could be looked at in the time that a search takes at least."""


_WORD: Final = re.compile(r"\w+")


class KnownSecrets:
    """The secrets of one event's message.

    Once looking for them has taken too long, texts in which they may be are replaced as a whole.
    """

    def __init__(self, secrets: Mapping[str, RedactRule], rests: Mapping[str, RedactRule]) -> None:
        """Take *secrets*, *rests*, which are texts that have secrets in them, and their rules."""
        self._rules = {form: rule for one, rule in secrets.items() for form in _forms(one)}
        self._long = [(form, rule) for form, rule in self._rules.items() if len(form) >= SHORT]
        self._heads = {form[:SHORT] for form, _ in self._long}
        # texts that have more in them than a secret, as `password=x` where all of it is replaced
        context = {form: rule for form, rule in self._rules.items() if rule.with_context}
        context |= {form: rule for one, rule in rests.items() for form in _forms(one)}
        self._with_context = next(iter(context.values()), None)
        self._context = "\n".join(context)
        self._words = {word for form in context for word in _WORD.findall(form)}
        self._steps = 0

    def replace_in(self, text: str) -> str:
        """Return *text*, a field's name or value, without the secrets."""
        if len(self._long) > _FEW:
            if not self._may_be_in(text):
                return text
            if self._is_late(len(self._long), len(text)):
                return self._long[0][1].replacement
        for secret, rule in self._long:
            text = text.replace(secret, rule.replacement)
        return text

    def replace_value(self, text: str) -> str:
        """Return *text*, a field's value, without the secrets.

        All of it is replaced if it is one, or a part of one that has more in it.
        """
        text = self.replace_in(text)
        rule = self._rules.get(text)
        if rule is None and self._with_context is not None and self._is_part(text):
            rule = self._with_context
        return text if rule is None else rule.replacement

    def _may_be_in(self, text: str) -> bool:
        heads = self._heads
        return any(text[at : at + SHORT] in heads for at in range(len(text) - SHORT + 1))

    def _is_part(self, text: str) -> bool:
        """Return whether *text* may be what is secret in one of those that have more in them."""
        if text in self._words:
            return True
        return len(text) >= SHORT and (
            self._is_late(1, len(self._context)) or text in self._context
        )

    def _is_late(self, searches: int, characters: int) -> bool:
        """Return whether so many more *searches*, through *characters* each, take too long."""
        self._steps += searches * (_STEPS_OF_CALL + characters)
        return self._steps > _MOST_STEPS


def _forms(text: str) -> set[str]:
    """Return *text* as it is and as it stands in fields."""
    return {text, undo_escapes(text)}
