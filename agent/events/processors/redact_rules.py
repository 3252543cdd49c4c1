"""Rules of what is secret: where it stands in a text, and what replaces it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from agent.config.processors import RedactPreset, RedactTable
from agent.events.processors.card_numbers import CARD_DIGITS, find_card_numbers
from agent.events.processors.counters import RuleCounter
from agent.events.processors.text_search import TextSearch

Span = tuple[int, int]
"""Where something begins and ends in the bytes of a text."""

MOST_MATCHES: Final = 1_024
"""Matches and secrets of a rule in one text; what follows more of them is replaced as a whole.

Each search may look at all that is left of the text, and each secret is looked for elsewhere in the
event, so their number must have a limit.
"""

_ORDER: Final[tuple[RedactPreset, ...]] = ("token", "email", "card")
"""Order of the presets: a value that a name makes a secret goes first."""

_EMAIL: Final = (
    r"[A-Za-z0-9._%+\x{80}-\x{10FFFF}-]+(?:@|%40)"
    r"[A-Za-z0-9\x{80}-\x{10FFFF}-]+(?:\.[A-Za-z0-9\x{80}-\x{10FFFF}-]+)+"
)

_NAMES: Final = (
    r"password|passwd|passphrase|pwd|secret|credential|session[_-]?id|token"
    r"|(?:api|access|private|account|signing|encryption)[_-]?key"
)
"""Ends of names whose values are secrets."""

_VALUE: Final = (
    r"(?:"
    r'\\+"([^"\\]+)'  # in JSON that is itself a text of JSON
    r'|"((?:[^"\\]|\\.)+)'
    r"|'([^']+)"
    r"""|([^\s"'\\,;&\[{(][^\s"'\\,;&})\]]*)"""
    r")"
)

_TOKEN: Final = "|".join(
    (
        # a name and its value, in forms such as name=value, "name": "value", name => 'value'
        rf"(?i:{_NAMES})\\*[\"']?\s*(?:=>|[=:])\s*{_VALUE}",
        # HTTP's Authorization, with or without a scheme
        r"(?i:authorization)\\*[\"']?\s*[=:]\s*\\*[\"']?(?:[A-Za-z-]+\s+)?([^\s\"'\\,;]+)",
        r"(?i:bearer)\s+([A-Za-z0-9._~+/=-]{16,})",
        # the password in a URL
        r"://[^\s/:@]*:([^\s/@]+)@",
        # JSON web tokens
        r"(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
        # keys that their makers gave a beginning
        r"((?:AKIA|ASIA)[A-Z0-9]{16})",
        r"(AIza[A-Za-z0-9_-]{35})",
        r"(gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,})",
        r"(xox[abeoprs]-[A-Za-z0-9-]{10,})",
        r"((?:sk|rk|pk)[_-](?:[a-z]+[_-])?[A-Za-z0-9_-]{20,})",
        r"(npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{30,})",
        # private keys, up to their end line
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----((?:[^-]|-[^-])+)",
    )
)


_PATTERNS: Final[dict[RedactPreset, str]] = {
    "token": _TOKEN,
    "email": _EMAIL,
    "card": CARD_DIGITS,
}
_FINDERS: Final[dict[RedactPreset, "FindSecrets"]] = {"card": find_card_numbers}
"""Finders of secrets that no pattern can tell."""


class FindSecrets(Protocol):
    """Finds secrets in a text."""

    def __call__(self, data: bytes) -> Iterator[Span]:
        """Yield the spans of secrets in *data*, UTF-8, in order and apart from each other.

        An empty one stands for a search that found no secret.
        """
        ...


@dataclass(frozen=True, slots=True)
class RedactRule:
    """One rule."""

    search: TextSearch
    """Finds the texts in which there may be a secret."""

    find_secrets: FindSecrets
    """Finds the secrets of such a text."""

    replacement: str
    """What stands for each."""

    counter: RuleCounter
    """What it did."""

    with_context: bool = False
    """Whether what it finds may have more in it than the secret, as in `password=x`."""

    def replace(self, text: str) -> "Replaced | None":
        """Return *text* without its secrets, and these; None if it has none."""
        data = text.encode(errors="replace")
        parts, secrets, at = list[bytes](), list[str](), 0
        with_replacement = self.replacement.encode(errors="replace")
        for number, (begin, end) in enumerate(self.find_secrets(data)):
            if number == MOST_MATCHES:
                rest = data[at:].decode(errors="replace")
                parts.append(with_replacement if rest else b"")
                return Replaced(b"".join(parts).decode(errors="replace"), secrets, rest)
            if begin < end:
                parts += (data[at:begin], with_replacement)
                secrets.append(data[begin:end].decode(errors="replace"))
                at = end
        if not secrets:
            return None
        return Replaced(b"".join((*parts, data[at:])).decode(errors="replace"), secrets)


class Replaced(NamedTuple):
    """A text without its secrets."""

    text: str
    """The text."""

    secrets: list[str]
    """What was replaced."""

    rest: str = ""
    """What was replaced as a whole, behind very many matches: it may have more secrets in it."""

    @property
    def matches(self) -> int:
        """In how many places something was replaced."""
        return len(self.secrets) + bool(self.rest)


class PatternSecrets:
    """The secrets that a pattern finds: its groups where it has any, else all that matches."""

    def __init__(self, search: TextSearch) -> None:
        self._pattern = search.pattern

    def __call__(self, data: bytes) -> Iterator[Span]:
        """Yield the spans of secrets; see `FindSecrets`."""
        at = 0
        while at <= len(data) and (spans := self._pattern.find_groups(data, at)) is not None:
            begin, end = spans[0]
            groups = spans[1:] if len(spans) > 1 else spans
            found = False
            for secret_begin, secret_end in sorted(groups):
                # a group may be empty, or inside another
                if max(secret_begin, at) < secret_end:
                    yield max(secret_begin, at), secret_end
                    at, found = secret_end, True
            if not found:
                yield at, at
            at = max(at, end if end > begin else end + 1)


def make_rules(table: RedactTable, counter_of: Callable[[str], RuleCounter]) -> list[RedactRule]:
    """Return the rules of *table*, the operator's own first; *counter_of* takes a rule's name."""
    rules: list[RedactRule] = []

    def add(name: str, search: TextSearch, find: FindSecrets, *, own: bool = False) -> None:
        replacement = f"[redacted {name}]" if table.replacement is None else table.replacement
        with_context = own and search.pattern.groups == 0
        rules.append(RedactRule(search, find, replacement, counter_of(name), with_context))

    if table.pattern is not None:
        search = TextSearch(table.pattern)
        add(table.name, search, PatternSecrets(search), own=True)
    for preset in _ORDER:
        if preset in table.presets:
            search = TextSearch(_PATTERNS[preset])
            add(preset, search, _FINDERS.get(preset) or PatternSecrets(search))
    return rules
