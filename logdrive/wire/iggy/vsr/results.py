"""Results at the beginning of a reply's body in R3. See docs/protocols/iggy.md#r3-results.

An error that is found before an operation is carried out is the status of the reply's head. What a
replicated operation itself ends with stands at the beginning of the body: `0` and what it returns,
or `1, index, code`. A login's reply has it where there is a body.
"""

import struct
from typing import Final

from logdrive.model.framing import Part
from logdrive.wire.iggy.commands import REGISTER
from logdrive.wire.iggy.errors import IggyError, Reason, error_of
from logdrive.wire.iggy.revision import Revision

_FRAMED: Final = frozenset((*range(64, 69), *range(128, 150), 161, 162))
_COUNT: Final = struct.Struct("<I")
_FAILED: Final = struct.Struct("<III")


def is_result_framed(operation: int) -> bool:
    """Return whether the body of a reply to *operation* begins with its result.

    Register's does, unless it is empty.
    """
    return operation in _FRAMED or operation == REGISTER


def frame_result(payload: Part) -> bytes:
    """Return the body of a reply to a result-framed operation that has succeeded."""
    return _COUNT.pack(0) + payload


def frame_failure(code: int) -> bytes:
    """Return the body of a reply to a result-framed operation that has failed with *code*."""
    return _FAILED.pack(1, 0, code)


def unframe_result(operation: int, body: memoryview) -> memoryview:
    """Return what a reply to *operation* returns. Raises `IggyError`: the failure it tells."""
    if not is_result_framed(operation) or (operation == REGISTER and not body):
        return body
    if len(body) < _COUNT.size:
        raise IggyError(Reason.INVALID_FORMAT, "a reply without a result")
    failed = _COUNT.unpack_from(body)[0]
    if failed == 0:
        return body[_COUNT.size :]
    if failed != 1 or len(body) != _FAILED.size:
        raise IggyError(Reason.INVALID_FORMAT, "a reply whose result can't be read")
    raise error_of(Revision.R3, _FAILED.unpack(body)[2])
