"""Lines of a container runtime's files: which stream of the container wrote which text.

CRI:    2026-01-02T10:00:00.123456789Z stdout F text
Docker: {"log":"text\\n","stream":"stdout","time":"2026-01-02T10:00:00.123456789Z"}

A runtime writes a long line of the container as several: in CRI all but the last have P instead of
F, in Docker's json-file they lack the newline.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

ContainerFormat = Literal["cri", "docker"]
"""What writes the file: containerd and CRI-O, or Docker's driver json-file."""

_CRI_HEAD: Final = re.compile(rb"\d{4}-\d\d-\d\dT\S+ std(?:out|err) [FP]")
_DOCKER_HEAD: Final = b'{"log":"'

_TIME: Final = r"^\d{4}-\d\d-\d\dT"
"""What a time begins with."""
_SECOND: Final = 19
"""Characters of a time up to its seconds."""


class ContainerLine(NamedTuple):
    """One line of the runtime's file."""

    stream: bytes
    """The stream of the container that it is from."""

    text: bytes
    """What the container wrote, without line end."""

    partial: bool
    """Whether the container's line goes on in the next line of this stream."""

    time: bytes
    """When it was written, as the line says it."""


ReadLine = Callable[[bytes], ContainerLine | None]
"""Reads a line of the file, without its line end; returns None for one of another form."""


class _DockerLine(msgspec.Struct, gc=False):
    # programs of all kinds write objects with a `log`: only a runtime's lines have all three
    log: str
    stream: Literal["stdout", "stderr"]
    time: Annotated[str, msgspec.Meta(pattern=_TIME)]


_DOCKER: Final = msgspec.json.Decoder(_DockerLine)


def read_cri(line: bytes) -> ContainerLine | None:
    """Return what a *line* of CRI says."""
    time, stream, rest = (*line.split(b" ", 2), b"", b"")[:3]
    tags, _, text = rest.partition(b" ")
    if stream not in (b"stdout", b"stderr") or tags[:1] not in (b"F", b"P"):
        return None
    return ContainerLine(stream, text, tags.startswith(b"P"), time)


def read_docker(line: bytes) -> ContainerLine | None:
    """Return what a *line* of Docker's json-file says."""
    try:
        found = _DOCKER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    partial = not found.log.endswith("\n")
    text = found.log if partial else found.log[:-1].removesuffix("\r")
    return ContainerLine(
        found.stream.encode(), text.encode(errors="replace"), partial, found.time.encode()
    )


def may_have_parts(
    data: bytes, begin: int, ends: Sequence[int], container: ContainerFormat
) -> bool:
    """Return whether some of the lines in *data* from *begin* on, with *ends*, may be parts.

    False is sure. Looks at all of them at once.
    """
    if container == "cri":
        return data.find(b" stdout P", begin) >= 0 or data.find(b" stderr P", begin) >= 0
    end = ends[-1] if ends else begin
    # the text may end with a backslash and an n of its own
    if data.find(b'\\\\n","', begin, end) >= 0:
        return True
    return data.count(b'\\n","', begin, end) < len(ends)


READERS: Final[dict[ContainerFormat, ReadLine]] = {"cri": read_cri, "docker": read_docker}
"""What reads the lines of each format."""


def recognize_container(head: bytes) -> ContainerFormat | None:
    """Return the format of a file that begins with *head*; None for one of no runtime."""
    if head.startswith(_DOCKER_HEAD):
        return "docker"
    return "cri" if _CRI_HEAD.match(head) else None


def seconds_between(earlier: bytes, later: bytes) -> float:
    """Return the seconds between two times of lines of one file, whole ones; 0 if one is none."""
    try:
        first = datetime.fromisoformat(earlier[:_SECOND].decode())
        return (datetime.fromisoformat(later[:_SECOND].decode()) - first).total_seconds()
    except ValueError:
        return 0.0
