"""Paths as text: for the checkpoint, which is JSON, and for people."""

import base64
import os


def path_to_text(path: str) -> str:
    """Return *path* as text that JSON can carry: NUL and Base64 where its bytes are not UTF-8."""
    # nearly all paths are, and each checkpoint entry has three
    if path.isascii():
        return path
    data = os.fsencode(path)
    try:
        # a name may be UTF-8 although the locale decodes it otherwise
        return path if data.decode() == path else data.decode()
    except UnicodeDecodeError:
        return "\0" + base64.b64encode(data).decode()


def path_from_text(text: str) -> str:
    """Return the path that `path_to_text` turned into *text*."""
    return os.fsdecode(base64.b64decode(text[1:])) if text.startswith("\0") else text


def printable_path(path: str) -> str:
    """Return *path* for logs and records, with U+FFFD for bytes that are not UTF-8."""
    return os.fsencode(path).decode(errors="replace")
