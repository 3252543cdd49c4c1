"""The names in the directories of a `MemoryDisk`: what changed and is not durable yet."""

from dataclasses import dataclass, field

from tests.support.memory.node import Node


@dataclass(slots=True)
class Name:
    """A change of a name that is not durable yet."""

    path: str
    node: Node | None  # what *path* names now; None: it was removed
    source: str | None = None  # of a rename: the name that is gone by the same change


@dataclass(slots=True)
class Directory:
    """Whether its own name is durable, and which changes of names in it are *pending*."""

    durable: bool = False
    pending: list[Name] = field(default_factory=list)


def rename(names: dict[str, Node], change: Name) -> None:
    """Do *change* among *names*."""
    if change.source is not None:
        names.pop(change.source, None)
    if change.node is None:
        names.pop(change.path, None)
    else:
        names[change.path] = change.node
