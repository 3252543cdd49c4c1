"""Escapes in texts, as JSON, key=value or CSV have: a secret may be written with them."""

import re
from typing import Final

_ESCAPE: Final = re.compile(r'\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(.))|"(")', re.DOTALL)


def may_hide(text: str) -> bool:
    """Return whether *text* may have escapes."""
    return "\\" in text or '""' in text


def undo_escapes(text: str) -> str:
    """Return what *text* says once its escapes are undone."""
    return _ESCAPE.sub(_unescaped, text) if may_hide(text) else text


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else match[3] or match[4]
