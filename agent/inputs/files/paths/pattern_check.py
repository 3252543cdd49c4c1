"""Checks, for `agent check`, which files the inputs' patterns miss or match by mistake.

A file that is rotated while the agent runs is followed by its inode, whatever the patterns are. If
it is rotated while the agent is down, the checkpoint leads to it. Without the checkpoint, only a
pattern that matches the rotated name finds it again.
"""

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from typing import Final

from agent.inputs.files.paths.globs import DirectoryListing, FileInputs, MatchedFile
from agent.inputs.files.paths.locate import ROTATED
from agent.inputs.files.paths.suffixes import SUFFIXES
from agent.inputs.services import is_of_file
from agent.sources.checkpoint.file import Checkpoint
from agent.sources.paths import path_from_text, printable_path
from logdrive.host.disk import Disk

_UNREADABLE: Final = (".lz4", ".zip", ".Z")
_COMPRESSED: Final = (*SUFFIXES, *_UNREADABLE)
_BRACES: Final = re.compile(r"\{[^{}/]*,[^{}/]*\}")
"""What a shell makes several names of, and no pattern of ours does."""
_SHOWN: Final = 10
"""Limit on the paths in one text."""


def check_patterns(
    matches: Sequence[MatchedFile],
    inputs: FileInputs,
    checkpoint: Checkpoint | None,
    listing: DirectoryListing,
) -> list[tuple[str, str]]:
    """Return the name and text of each warning that an operator should see before a start.

    *matches* are the files that the inputs match, *listing* the scan that found them.
    """
    warnings = [
        (
            "rotated",
            uncovered_rotations(matches, inputs, listing),
            "no pattern covers {}: if the checkpoint is lost, their unread lines are not read",
        ),
        (
            "compressed",
            [match.path for match in matches if match.path.endswith(_UNREADABLE)],
            "{} would be shipped as lines of text: exclude them",
        ),
        (
            "checkpoint",
            _uncovered_entries(inputs, checkpoint),
            "it has {}, which no pattern covers now: they stay in it, but are not read",
        ),
    ]
    return [(name, text.format(join_paths(paths))) for name, paths, text in warnings if paths]


def uncovered_rotations(
    matches: Sequence[MatchedFile], inputs: FileInputs, listing: DirectoryListing
) -> list[str]:
    """Return paths such as x.log.1 or x.log-20261121, not matched, beside a matched x.log."""
    covered: dict[str, list[str]] = {}  # names by directory
    for match in matches:
        directory, name = os.path.split(match.path)
        covered.setdefault(directory, []).append(name)

    missed = []
    for directory, names in covered.items():
        beside = [name for name in listing.list_names(directory) if not name.endswith(_COMPRESSED)]
        for name in beside:
            stem = max((known for known in names if name.startswith(known)), key=len, default=None)
            path = os.path.join(directory, name)
            if (
                stem is not None
                and ROTATED.fullmatch(name, len(stem))
                and not inputs.mentions_path(path)
            ):
                missed.append(path)

    return missed


def _uncovered_entries(inputs: FileInputs, checkpoint: Checkpoint | None) -> list[str]:
    entries = checkpoint.entries if checkpoint is not None else []
    living = [
        (path_from_text(entry.path), path_from_text(entry.name))
        for entry in entries
        if is_of_file(entry) and entry.done is None and entry.ended is None
    ]
    return [
        path
        for path, name in living
        if inputs.settings_for(path) is None and inputs.settings_for(name) is None
    ]


def why_no_match(patterns: Iterable[str], disk: Disk) -> str:
    """Return what to write instead of *patterns* that no file can match; "" where one can."""
    for pattern in patterns:
        if _BRACES.search(pattern):
            return f": in {pattern} braces stand for themselves: write a pattern for each name"
        with contextlib.suppress(OSError):
            if disk.stat(pattern.rstrip("/") or "/").is_directory:
                inside = os.path.join(pattern, "**", "*")
                return f": {pattern} is a directory: write {inside} for all files in and below it"
    return ""


def join_paths(paths: Iterable[str]) -> str:
    """Return paths for a message: those that fit it, and how many more there are."""
    listed = sorted({printable_path(path) for path in paths})
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
