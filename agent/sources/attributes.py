"""What the S frame of a source says of it: it is in each header of its batches (rule R4)."""

from typing import Any

from agent.sources.paths import printable_path
from agent.sources.readable import Labels
from logdrive.model.limits import ATTRIBUTES_BYTES
from logdrive.model.records import compact_json

_LONGEST_PATH = 1000
"""Characters that are kept of a path which makes the attributes too long."""


def encode_attributes(host: str, agent: str, path: str, labels: Labels) -> bytes:
    """Return the attributes of a source of *agent*, as JSON of at most `ATTRIBUTES_BYTES`."""
    values: dict[str, Any] = {"host": host, "agent": agent, "path": printable_path(path)}
    if labels.fields:
        values["fields"] = labels.fields
    if labels.tags:
        values["tags"] = labels.tags
    encoded = compact_json(values)
    # labels have limits of their own, so it is the path that is long, and longer escaped
    if len(encoded) > ATTRIBUTES_BYTES:
        encoded = compact_json(values | {"path": values["path"][-_LONGEST_PATH:]})
    return encoded
