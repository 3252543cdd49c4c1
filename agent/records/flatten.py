"""Flattens an input's fields and tags to pairs of text, as Lumberjack v1 has them.

Tables become names with dots: `fields = { service = "web", app = { name = "shop" } }` becomes
`service` and `app.name`, at the top level, as in logstash-forwarder. A field that has the name of
one of the agent's own pairs gets `fields.` before its name.
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

OWN_KEYS: Final = frozenset((LINE, OFFSET, HOST, FILE, TAGS, ORIGIN, EOL, FLAGS, ORIGINAL))
"""Keys of the pairs that the agent itself sets."""


def flatten_labels(fields: dict[str, Any], tags: list[str]) -> list[tuple[str, str]]:
    """Return *fields* and *tags* as pairs of key and value.

    Text is unchanged; all other values, and the list of tags, are JSON. Raises ValueError if two
    fields get the same key.
    """
    pairs: dict[str, str] = {}
    for name, value in _leaves("", orjson.loads(orjson.dumps(fields))):
        key = f"fields.{name}" if name in OWN_KEYS else name
        if key in pairs:
            raise ValueError(
                f"two fields become {key!r} when flattened for Lumberjack v1: rename one"
            )
        pairs[key] = value if isinstance(value, str) else orjson.dumps(value).decode()
    if tags:
        pairs[TAGS] = orjson.dumps(tags).decode()
    return list(pairs.items())


def _leaves(prefix: str, fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name, with dots, and value of each field that is not a table."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value
