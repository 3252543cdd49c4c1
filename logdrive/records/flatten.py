"""Flattens fields and tags to pairs of text, as Lumberjack v1 has them.

Tables become names with dots: `fields = { service = "web", app = { name = "shop" } }` becomes
`service` and `app.name`, at the top level, as in logstash-forwarder. A field that has the name of
one of the agent's own pairs gets `fields.` before its name.
"""

from collections.abc import Iterator, Set
from typing import Any, Final

import orjson

from logdrive.model.limits import RECORD_BYTES

LINE: Final = "line"  # the line's text
OFFSET: Final = "offset"  # position of the line's first byte, in decimal
HOST: Final = "host"  # the host's name
FILE: Final = "file"  # the path that the lines are known by
TAGS: Final = "tags"  # the input's tags, as a JSON list
ORIGIN: Final = "log.origin"  # the origin id (rule G2)
EOL: Final = "log.eol"  # a line end other than LF
PARTS: Final = "log.parts"  # where an event's lines are, as START-END separated by commas (rule R2)
FLAGS: Final = "log.flags"  # flags of a part of a line, separated by commas
ORIGINAL: Final = "event.original_base64"  # the bytes of a line that is not UTF-8
RAW: Final = "event.original"  # the line, where its text is not all of it
ENCODING: Final = "log.encoding"  # the codec of a line's text, other than UTF-8
END: Final = "log.end"  # position after a line whose text was changed
TIME: Final = "@timestamp"  # when it happened, if the line says that

OWN_KEYS: Final = frozenset(
    (
        LINE,
        OFFSET,
        HOST,
        FILE,
        TAGS,
        ORIGIN,
        EOL,
        FLAGS,
        ORIGINAL,
        RAW,
        ENCODING,
        END,
        TIME,
        PARTS,
    )
)
"""Keys of the pairs that the agent itself sets."""


def flatten_labels(fields: dict[str, Any], tags: list[str]) -> list[tuple[str, str]]:
    """Return *fields* and *tags* as pairs of key and value.

    Text is unchanged; all other values, and the list of tags, are JSON. Raises ValueError if two
    fields get the same key.
    """
    pairs: dict[str, str] = {}
    for name, value in _leaves("", orjson.loads(orjson.dumps(fields))):
        key = f"fields.{name}" if name in OWN_KEYS else name
        # `a.b` beside a table `a` with a `b`
        if key in pairs:
            raise ValueError(
                f"two fields become {key!r} when flattened for Lumberjack v1: rename one"
            )
        pairs[key] = value if isinstance(value, str) else orjson.dumps(value).decode()
    if tags:
        pairs[TAGS] = orjson.dumps(tags).decode()
    return list(pairs.items())


def flatten_fields(fields: dict[str, Any], taken: Set[str], most: int) -> list[tuple[str, str]]:
    """Return the *fields* of one event as pairs of key and value, as `flatten_labels` does.

    A field with one of the names *taken*, of the agent's own pairs or of labels, gets `fields.`
    before its name. Of two with the same key only the first is returned: the line has them all.
    Raises ValueError if there are more than *most*, or keys too long for a record: nested fields
    repeat those that they are in.
    """
    pairs: dict[str, str] = {}
    _flatten_into(pairs, "", fields, taken, _Room(most))
    return list(pairs.items())


class _Room:
    """Room for the pairs of one record: so many fields of tables, and characters of keys."""

    def __init__(self, fields: int) -> None:
        self._fields = fields
        self._characters = RECORD_BYTES

    def take(self, key: str) -> None:
        """Take the room of a field. Raises ValueError if there is none."""
        self._fields -= 1
        self._characters -= len(key)
        if self._fields < 0 or self._characters < 0:
            raise ValueError("more fields, flattened, than fit a record")


def _flatten_into(
    pairs: dict[str, str], prefix: str, fields: dict[str, Any], taken: Set[str], room: _Room
) -> None:
    for name, value in fields.items():
        key = prefix + name
        if type(value) is dict:
            _flatten_into(pairs, f"{key}.", value, taken, room)
            continue
        if key in OWN_KEYS or key in taken:
            key = f"fields.{key}"
        if key not in pairs and key not in taken:
            room.take(key)
            pairs[key] = value if type(value) is str else orjson.dumps(value).decode()


def _leaves(prefix: str, fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name, with dots, and value of each field that is not a table."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from _leaves(f"{prefix}{name}.", value)
        else:
            yield prefix + name, value
