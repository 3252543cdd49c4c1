"""The text in which Prometheus reads figures (its exposition format, version 0.0.4). No I/O.

The library `prometheus-client` would write it, too. Its import takes 6.6 MiB, as it brings an HTTP
server and TLS, a seventh of all that an agent has; the tests read this text with the library.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Family:
    """Figures of one name."""

    name: str
    """A name such as `logdrive_agent_read_bytes_total`; that of a counter ends with `_total`."""

    kind: Literal["counter", "gauge"]
    """What it is: a counter only grows until the next start."""

    text: str
    """What it says, in one line."""

    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)
    """Values, each with its labels."""

    def add(self, value: float, **labels: str) -> None:
        """Add a value."""
        self.samples.append((labels, value))


def encode_families(families: Iterable[Family]) -> bytes:
    """Return *families* as Prometheus reads them."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {_escape(family.text)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [
            f"{family.name}{_labels(labels)} {value:.17g}" for labels, value in family.samples
        ]
    lines.append("")
    return "\n".join(lines).encode()


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escape(value, quotes=True)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escape(text: str, *, quotes: bool = False) -> str:
    escaped = text.replace("\\", r"\\").replace("\n", r"\n")
    return escaped.replace('"', r"\"") if quotes else escaped
