"""What the patterns of the inputs overlook, and what they take that they should not: for `agent
check`.

A rotation that happens while the agent runs is followed by inode, whatever the patterns say. One
that happens while it is down is found through the checkpoint; where that is lost too, only a
pattern that covers the rotated name finds the file again.
"""

import os
from collections.abc import Iterable, Sequence
from typing import Final

from agent.inputs.files.globs import FileInputs, Listing, MatchedFile
from agent.inputs.files.locate import ROTATED
from agent.sources.checkpoint import Checkpoint
from agent.sources.paths import path_from_text, printable_path

_COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst", ".lz4", ".zip", ".Z")
_SHOWN: Final = 10


def overlooked(
    found: Sequence[MatchedFile],
    inputs: FileInputs,
    checkpoint: Checkpoint | None,
    listing: Listing,
) -> list[tuple[str, str]]:
    """Return what an operator should know before a start, as names and texts."""
    told = [
        (
            "rotated",
            _rotated(found, inputs, listing),
            "no pattern covers {}: after a lost checkpoint nobody would read what is left in them",
        ),
        (
            "compressed",
            [each.path for each in found if each.path.endswith(_COMPRESSED)],
            "{} would be shipped as lines of text: exclude them",
        ),
        (
            "checkpoint",
            _outside(inputs, checkpoint),
            "it knows {}, which no pattern covers now: they are kept in it, and not read",
        ),
    ]
    return [(name, text.format(_few(paths))) for name, paths, text in told if paths]


def _rotated(found: Sequence[MatchedFile], inputs: FileInputs, listing: Listing) -> list[str]:
    """Return names such as x.log.1 or x.log-20261121 beside a file x.log that is covered."""
    covered: dict[str, list[str]] = {}
    for each in found:
        directory, name = os.path.split(each.path)
        covered.setdefault(directory, []).append(name)
    missed = []
    for directory, names in covered.items():
        beside = [name for name in listing.names(directory) if not name.endswith(_COMPRESSED)]
        for name in beside:
            stem = max((known for known in names if name.startswith(known)), key=len, default=None)
            path = os.path.join(directory, name)
            if stem is not None and ROTATED.fullmatch(name, len(stem)) and not inputs.mention(path):
                missed.append(path)
    return missed


def _outside(inputs: FileInputs, checkpoint: Checkpoint | None) -> list[str]:
    entries = checkpoint.entries if checkpoint is not None else []
    living = [
        (path_from_text(entry.path), path_from_text(entry.name))
        for entry in entries
        if entry.done is None and entry.ended is None
    ]
    return [
        path
        for path, name in living
        if inputs.settings_for(path) is None and inputs.settings_for(name) is None
    ]


def _few(paths: Iterable[str]) -> str:
    listed = sorted({printable_path(path) for path in paths})
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
