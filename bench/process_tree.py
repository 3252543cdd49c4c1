"""What a process and all that it has started take together, as the kernel accounts for it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """What a tree of processes has used so far."""

    cpu_seconds: float  # of processes that were waited for, too; in ticks of 10 ms
    rss: int  # bytes held now; a page that two processes share is counted twice


def tree_usage(root: int) -> TreeUsage:
    """Return what *root* and its descendants have used; zeros once *root* has ended."""
    ticks = pages = 0
    for fields in _family(root):
        # utime, stime, and those of children that were waited for: proc(5), fields 14 to 17
        ticks += sum(map(int, fields[11:15]))
        pages += int(fields[21])
    return TreeUsage(ticks / _TICKS, pages * _PAGE)


def _family(root: int) -> Iterator[list[str]]:
    """Yield the fields of `stat` behind the name, of *root* and of each of its descendants."""
    children: dict[int, list[int]] = {}
    known: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            text = (entry / "stat").read_text(errors="replace")
        except OSError:  # it has ended meanwhile
            continue
        fields = text[text.rindex(")") + 2 :].split()
        known[int(entry.name)] = fields
        children.setdefault(int(fields[1]), []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        if pid in known:
            yield known[pid]
        waiting += children.get(pid, [])
