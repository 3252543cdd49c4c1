"""The applications of one host, which write, rotate, truncate, compress and remove files.

Every byte of every life of a file is remembered, for the judge.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from logdrive.host.disk import FileStat
from tests.simulation.hosts.compressing import SUFFIXES
from tests.simulation.judging.witnesses import FileId, Witness, file_id
from tests.simulation.trace import Trace
from tests.support.memory.disk import MemoryDisk, MemoryFile

LOGS = "/logs"
OLD = "/logs/old"
"""The directory that logrotate's olddir names; the agent watches it, too."""
APPLICATIONS = ("a", "b", "c")
"""Names of the applications; each writes to a file of its name."""
FILE_KINDS = (
    "write",
    "rotate",
    "shift",
    "shift_one",
    "archive",
    "unlink",
    "truncate",
    "copytruncate",
    "compress",
    "remove",
)
"""Kinds of steps that applications do to files: methods of `Applications`."""
CHAIN = 3
"""How many rotated files logrotate keeps, as .1, .2 and .3."""
_HEADER = b"#Version: 1.0 #Fields: date time level message\n"
_WORDS = (
    "request served",
    "cache miss for key",
    "user signed in",
    "größer als erlaubt",
    "日本語",
    "x",
    "",
)


class Watching(Protocol):
    """The agent of a host, as a witness of what is done to files."""

    incarnation: int
    """How often it was started."""

    def knows(
        self, stat: FileStat, content: bytes | bytearray, taken: Iterable[Witness]
    ) -> Witness | None:
        """Return what the agent knows of the file of *stat* and *content*, None if nothing.

        What it knows of earlier lives, those of *taken*, does not count.
        """
        ...

    def holds(self, stat: FileStat, witness: Witness) -> bool:
        """Return whether the agent of *witness* still has the file of *stat* open."""
        ...


@dataclass(eq=False)
class Life:
    """One life of one file: all that was ever written to it."""

    host: str
    name: str  # of the file when it was made
    number: int  # counts all lives of the host
    path: str | None  # None once no name leads to it
    data: bytearray = field(default_factory=bytearray)
    # how it ended: "removed", "truncated" …; empty while it is there
    gone: str = ""
    # bytes that its agent must account for: those at its end, and those written after it while
    # an agent still had the file open
    owed: int = 0
    # what the agent knew of it at its end; None if nothing
    witness: Witness | None = None
    # where its file stood at its end, and which that was
    stood_at: str = ""
    file: FileId = (0, 0)
    # starts of the agent until its end
    gone_in: int = 0
    # starts of the agent until that file was moved or removed, if it was truncated
    moved_in: int = 0
    # the copy that has all of its bytes, if its name is one that inputs match
    copy: str = ""

    def __str__(self) -> str:
        return (
            f"life {self.number} of {self.host}:{self.name} ({len(self.data)} "
            f"bytes{', ' + self.gone if self.gone else ''})"
        )


@dataclass
class _Late:
    """A life that its application goes on writing to after a rotation or removal."""

    life: Life
    left: int  # writes
    handle: MemoryFile | None  # the application's; None if the life still has a name


class Applications:
    """What applications did on one host.

    *disk* returns the host's present disk; *agent* is asked about each file that goes. With *alike*
    some lives have the same first line.
    """

    def __init__(
        self,
        host: str,
        disk: Callable[[], MemoryDisk],
        agent: Watching,
        trace: Trace,
        *,
        alike: bool = True,
    ) -> None:
        self.host = host
        self._disk = disk
        self._agent = agent
        self._trace = trace
        self._alike = alike
        # all that ever were
        self.lives: list[Life] = []
        # application -> the life that it writes to
        self._current: dict[str, Life] = {}
        # rotated lives that still have a name, the oldest first
        self._old: list[Life] = []
        # application -> the life before, which it has not closed yet
        self._late: dict[str, _Late] = {}
        # lines written so far: their numbers make them unique
        self._lines = 0

    @property
    def handles(self) -> list[MemoryFile]:
        """The files without a name that applications have open."""
        return [late.handle for late in self._late.values() if late.handle is not None]

    @property
    def on_disk(self) -> list[Life]:
        """The lives that have a name and are not empty."""
        return [life for life in (*self._current.values(), *self._old) if life.data]

    def write(self, file: str, lines: int, style: str, seed: int) -> None:
        """Let the application *file* write *lines* lines, perhaps to its rotated file."""
        pick = Random(seed)
        late = self._late.get(file)
        if late is not None:
            late.left -= 1
            if late.left < 0:
                self._leave(file)
                late = None

        life = late.life if late is not None else self._living(file)
        data = self._text(life, lines, style, pick)
        life.data += data
        if late is not None and late.handle is not None:
            late.handle.append([data])
            # an agent that has the file open reads it to its end (rule G1)
            if life.witness is not None and self._agent.holds(late.handle.stat(), life.witness):
                life.owed = len(life.data)
        elif life.path is not None:
            self._disk().write(life.path, data)

    def append(self, file: str, data: bytes) -> Life:
        """Write exactly *data* to the present file of *file*, and return its life."""
        life = self._living(file)
        self.append_to(life, data)
        return life

    def append_to(self, life: Life, data: bytes) -> None:
        """Write to *life* under the name that it has by now."""
        assert life.path is not None
        life.data += data
        self._disk().write(life.path, data)

    def rotate(self, file: str, late: int, seed: int) -> None:
        """Rename the file, replacing a file of the new name.

        Its application goes on writing to it for *late* writes.
        """
        life = self._take(file)
        if life is None or life.path is None:
            return
        target = f"{life.path}.{life.number}"
        for replaced in [other for other in self._old if other.path == target]:
            self._remove(replaced)
        self._move(life.path, target)
        life.path = target
        self._old.append(life)
        if late:
            self._late[file] = _Late(life, late, None)

    def shift(self, file: str, seed: int) -> None:
        """Rotate as logrotate does: remove .3, rename .2 to .3, .1 to .2, and the file to .1."""
        for depth in range(CHAIN, -1, -1):
            self.shift_one(file, depth, seed)

    def shift_one(self, file: str, depth: int, seed: int) -> None:
        """Do one step of `shift`: rename the file at *depth* to the next, if that name is free."""
        base = f"{LOGS}/{file}.log"
        path = f"{base}.{depth}" if depth else base
        life = next((life for life in self.on_disk if life.path == path), None)
        if life is None:
            return
        if depth == CHAIN:
            self._remove(life)
            return
        target = f"{base}.{depth + 1}"
        if target in self._disk().paths():
            return
        if not depth:
            self._take(file)
            self._old.append(life)
        self._move(path, target)
        life.path = target

    def archive(self, file: str, seed: int) -> None:
        """Move the oldest rotated file, or the file itself, to the other directory."""
        rotated = [
            life
            for life in self._old
            if life.path is not None
            and os.path.dirname(life.path) == LOGS
            and life.name == f"{file}.log"
        ]
        life = rotated[0] if rotated else self._take(file)
        if life is None or life.path is None:
            return
        if not rotated:
            self._old.append(life)
        target = f"{OLD}/{file}.log-{life.number}"
        self._move(life.path, target)
        life.path = target

    def unlink(self, file: str, late: int, seed: int) -> None:
        """Remove the file; its application has it open, and goes on for *late* writes."""
        life = self._take(file)
        if life is None or life.path is None:
            return
        handle = self._disk().open(life.path, write=True) if late else None
        self._remove(life)
        if handle is not None:
            self._late[file] = _Late(life, late, handle)

    def truncate(self, file: str, seed: int) -> None:
        """Truncate the file to nothing; the next write begins another life."""
        life = self._take(file)
        if life is None or life.path is None:
            return
        self._went(life, "truncated")
        handle = self._disk().open(life.path, write=True)
        handle.truncate(0)
        handle.close()
        life.path = None

    def copytruncate(self, file: str, seed: int, to: str = "") -> None:
        """Copy the file to *to*, or to a name that no input matches, then truncate it."""
        life = self._current.get(file)
        if life is not None and life.path is not None:
            if to and life.data:  # without, it is not truncated, and goes on
                life.copy = f"{LOGS}/{to}"
            content = self._disk().content(life.path) if life.data else b""
            self._disk().write(f"{LOGS}/{to or f'{file}-{life.number}.copy'}", content)
            self.truncate(file, seed)

    def compress(self, file: str, seed: int, how: str = "") -> None:
        """Replace the oldest rotated file by a compressed one, *how* being its suffix.

        Without, by one whose name no input matches.
        """
        life = self._oldest(file)
        if life is not None and life.path is not None:
            path = f"{life.path}{how}" if how else f"{LOGS}/{file}-{life.number}.gz"
            if path not in self._disk().paths():
                life.copy = path if how else ""
                pack = SUFFIXES[how or ".gz"]
                self._disk().write(path, pack(self._disk().content(life.path)))
            self._remove(life)

    def remove(self, file: str, seed: int) -> None:
        """Remove the oldest rotated file."""
        life = self._oldest(file)
        if life is not None:
            self._remove(life)

    def last_lines(self) -> None:
        """Write a whole last line to every file."""
        for file in list(self._late):
            self._leave(file)
        for life in self.on_disk:
            self._lines += 1
            data = b"last line %d\n" % self._lines
            life.data += data
            assert life.path is not None
            self._disk().write(life.path, data)

    def power_cut(self) -> None:
        """Forget what applications had open: the host has lost its power."""
        for file in [file for file, late in self._late.items() if late.handle is not None]:
            del self._late[file]

    def found(self) -> None:
        """Begin new lives with the files on the disk, which is another time's or another host's."""
        for life in self.on_disk:
            life.gone, life.path = "set back", None
        self._current.clear()
        self._old.clear()
        self._late.clear()
        disk = self._disk()
        for path in disk.paths():
            if os.path.dirname(path) == LOGS:
                life = self._living(os.path.basename(path).removesuffix(".log"))
                life.path = path
                life.data += disk.content(path)

    # ---------------------------------------------------------------------------------------------

    def _living(self, file: str) -> Life:
        if file not in self._current:
            path = f"{LOGS}/{file}.log"
            self._current[file] = Life(self.host, os.path.basename(path), len(self.lives) + 1, path)
            self.lives.append(self._current[file])
        return self._current[file]

    def _text(self, life: Life, lines: int, style: str, pick: Random) -> bytes:
        parts = []
        if not life.data and pick.random() < 0.3 and self._alike:
            parts.append(_HEADER)
        words = pick.choice(_WORDS)
        for _ in range(lines):
            self._lines += 1
            line = f"{self.host} life {life.number} line {self._lines} {words}".encode()
            if style == "odd":
                line += pick.choice((b"", b"\xff\xfe", b"\0" * 40, b'"\\"', b"word " * 50))
                parts.append(line + pick.choice((b"\n", b"\n", b"\r\n", b"")))
            else:
                parts.append(line + b"\n")
        return b"".join(parts)

    def _leave(self, file: str) -> None:
        """Let the application of *file* close the life before, if it has it open."""
        late = self._late.pop(file, None)
        if late is not None and late.handle is not None:
            late.handle.close()

    def _take(self, file: str) -> Life | None:
        """End the present life of *file* and return it; None if it has no bytes yet."""
        self._leave(file)
        life = self._current.get(file)
        if life is None or not life.data:
            return None
        return self._current.pop(file)

    def _oldest(self, file: str) -> Life | None:
        return next(
            (life for life in self._old if life.path is not None and life.name == f"{file}.log"),
            None,
        )

    def _went(self, life: Life, how: str) -> None:
        """Note that *life* ends now, and what the agent knows of it."""
        assert life.path is not None
        taken = [other.witness for other in self.lives if other.witness is not None]
        life.gone, life.owed = how, len(life.data)
        stat = self._disk().stat(life.path)
        life.stood_at, life.file = life.path, file_id(stat)
        life.gone_in = self._agent.incarnation
        life.witness = self._agent.knows(stat, life.data, taken)
        self._trace.add(self.host, f"{life}")

    def _move(self, path: str, target: str) -> None:
        self._leaves(path)
        self._disk().replace(path, target)

    def _leaves(self, path: str) -> None:
        """Note that the file at *path*, which may have been truncated, will not be there."""
        file = file_id(self._disk().stat(path))
        for life in self.lives:
            if (life.stood_at, life.file) == (path, file):
                life.moved_in = self._agent.incarnation

    def _remove(self, life: Life) -> None:
        assert life.path is not None
        self._went(life, "removed")
        self._leaves(life.path)
        self._disk().remove(life.path)
        life.path = None
        if life in self._old:
            self._old.remove(life)
        # without a handle its application can't go on writing to it
        for file in [
            file for file, late in self._late.items() if late.life is life and late.handle is None
        ]:
            del self._late[file]
