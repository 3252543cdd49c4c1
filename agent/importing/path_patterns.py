"""Makes patterns of paths of the regular expressions by which Filebeat leaves files out."""

import re
from typing import Final

_PART: Final = re.compile(r"\\[.\-_/ ]|[\w/ .\-]")
"""A character that stands for itself, or a dot for any."""


def path_patterns(expression: str) -> list[str]:
    """Return patterns that match the paths in which *expression* is found; none if there are none.

    Only of text that may have dots, with or without ^ and $.
    """
    begins, ends = expression.startswith("^"), expression.endswith("$")
    body = expression.removeprefix("^").removesuffix("$")
    parts = _PART.findall(body)
    if not parts or "".join(parts) != body:
        return []
    name = "".join("?" if part == "." else part.removeprefix("\\") for part in parts)
    if begins != name.startswith("/") or (not begins and "/" in name):
        return []
    start = name if begins else f"/**/*{name}"
    return [start] if ends else [f"{start}*", f"{start}*/**"]
