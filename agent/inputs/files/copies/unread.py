"""Files that were written, rotated and compressed between two looks at them (rule G5)."""

from collections.abc import Callable, Iterable

from agent.inputs.files.copies.known_life import is_name_like
from agent.inputs.files.followed import FollowedFile
from agent.sources.identity import FirstLine


def finds_unread(
    files: Iterable[FollowedFile],
    path: str,
    first_line: FirstLine,
    look_at: Callable[[FollowedFile], None],
) -> bool:
    """Look at the *files* without a source that *path*, which has *first_line*, may be a copy of.

    Nothing of them is known that it could be compared with. Returns whether one has got its source
    by that, or will get it soon: the end of its first line is still to come. Raises OSError.
    """
    found = False
    for followed in list(files):
        place = followed.generation.place
        if followed.dropped or followed.source is not None:
            continue
        if is_name_like((place.path, place.name), path):
            look_at(followed)
            found |= followed.source is not None or _ends_with(followed, first_line)
    return found


def _ends_with(followed: FollowedFile, first_line: FirstLine) -> bool:
    """Return whether a file has lost its name before its first line, or *first_line*, was whole."""
    file = followed.generation.file
    if file is None or not followed.head or not first_line.text.startswith(followed.head):
        return False
    return file.stat().links == 0
