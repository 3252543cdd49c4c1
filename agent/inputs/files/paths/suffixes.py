"""Names of compressed files."""

from typing import Final

SUFFIXES: Final = (".gz", ".bz2", ".xz", ".zst")
"""The names of compressed files end so."""


def suffix_of(path: str) -> str:
    """Return the suffix of a compressed file's *path*, "" for any other file."""
    # nearly all files are others
    if not path.endswith(SUFFIXES):
        return ""
    return next(suffix for suffix in SUFFIXES if path.endswith(suffix))
