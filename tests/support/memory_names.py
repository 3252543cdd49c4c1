"""The names in the directories of a `MemoryDisk`: what changed and is not durable yet."""

from dataclasses import dataclass, field

from tests.support.memory_node import Node


@dataclass(slots=True)
class Name:
    """*path* comes to stand for *node*, or for nothing; a rename is both at once, with *source*
    losing its name.
    """

    path: str
    node: Node | None
    source: str | None = None


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
