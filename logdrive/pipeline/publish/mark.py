"""The object beside the log of a copy that says which table it is of, `_logdrive.json`."""

from dataclasses import asdict, dataclass
from typing import Final

import orjson

MARK: Final = "_logdrive.json"


@dataclass(frozen=True, slots=True)
class CopyMark:
    """What a copy says of itself."""

    table: str
    """The id of the table that it is of."""
    erasure: int = 0
    """The number of the last erasure of which the copy has no line any more; 0 for none."""

    def encode(self) -> bytes:
        """Return the content of the object."""
        return orjson.dumps(asdict(self))


def decode_mark(data: bytes) -> CopyMark:
    """Return what the content of the object says; of an earlier version, without an erasure."""
    said = orjson.loads(data)
    return CopyMark(str(said["table"]), int(said.get("erasure", 0)))
