"""An input's fields and tags as Lumberjack v1 has them: pairs of text, tables flattened with dots.

Fields stand at the top, where logstash-forwarder put them: `fields = { service = "web", app = {
name = "shop" } }` becomes `service` and `app.name`. One that is named like a pair of the agent's
own gets `fields.` before its name.
"""

from collections.abc import Iterator
from typing import Any, Final

import orjson

LINE: Final = "line"
OFFSET: Final = "offset"
HOST: Final = "host"
FILE: Final = "file"
TAGS: Final = "tags"
ORIGIN: Final = "log.origin"
EOL: Final = "log.eol"
FLAGS: Final = "log.flags"
ORIGINAL: Final = "event.original_base64"

OWN: Final = frozenset((LINE, OFFSET, HOST, FILE, TAGS, ORIGIN, EOL, FLAGS, ORIGINAL))
"""The keys of the pairs that the agent makes itself."""


def flat(fields: dict[str, Any], tags: list[str]) -> list[tuple[str, str]]:
    """Return *fields* and *tags* as pairs. Raises ValueError where two fields would have one name.

    Text stays as it is, lists and tags are JSON, everything else is as JSON writes it.
    """
    pairs: dict[str, str] = {}
    for name, value in _leaves("", orjson.loads(orjson.dumps(fields))):
        key = f"fields.{name}" if name in OWN else name
        if key in pairs:
            raise ValueError(
                f"two fields are {key!r} once they are flat, as Lumberjack v1 has them: rename one"
            )
        pairs[key] = value if isinstance(value, str) else orjson.dumps(value).decode()
    if tags:
        pairs[TAGS] = orjson.dumps(tags).decode()
    return list(pairs.items())


def _leaves(prefix: str, fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what is in *fields* and the tables in them, with its whole name."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value
