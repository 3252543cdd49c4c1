"""Counts the bytes that a program holds in memory: those of every object reachable from its tasks.

What the program counts itself plays no part.
"""

import asyncio
import gc
from collections.abc import Iterable
from contextvars import Context
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType

from tests.simulation.trace import SPEAKER, Trace
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.memory.node import Node
from tests.support.memory.pipe import Pipe
from tests.support.memory.transport import Connection, MemoryNetwork

_FEW_BYTES = 256
"""Size below which bytes and texts are not counted: names, keys and the like, of which many are."""
_BYTES = bytes, bytearray, str
_PLAIN = int, float, bool, complex, type(None)
_OTHERS = (
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    CodeType,
    Context,
    asyncio.AbstractEventLoop,
    MemoryDisk,
    MemoryFile,
    Node,
    MemoryNetwork,
    Connection,
    Pipe,
    Trace,
)
"""Types of objects that belong to the simulated world or to the interpreter."""


def weigh(program: str, world: Iterable[type]) -> int:
    """Return how many bytes the tasks of *program* hold.

    Objects of the types *world*, and what only they refer to, are left out.
    """
    aside = (*_OTHERS, *world)
    waiting = [task for task in asyncio.all_tasks() if _speaker(task) == program]
    met = {id(each) for each in waiting}
    total = 0
    kept = []  # all objects met: a freed one could pass its id on to another
    while waiting:
        referents = gc.get_referents(*waiting)
        waiting = []
        for each in referents:
            kind = type(each)
            if kind in _PLAIN or id(each) in met:
                continue
            met.add(id(each))
            if kind in _BYTES:
                total += len(each) if len(each) >= _FEW_BYTES else 0
            elif not isinstance(each, aside):
                waiting.append(each)
        kept.append(waiting)
    return total


def _speaker(task: "asyncio.Task[object]") -> str:
    contexts = (each for each in gc.get_referents(task) if isinstance(each, Context))
    return next((context.get(SPEAKER, "") for context in contexts), "")
