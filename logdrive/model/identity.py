"""Ids of generations and of sources, as UUIDs (rules G2, D6)."""

import hashlib
import struct
from functools import lru_cache
from typing import Final
from uuid import UUID

NAMESPACE: Final = UUID("6a7d0f5e-5d0b-5c55-8f5b-2f9a3b1c7e41")
"""The fixed namespace of origin ids (rule G2). A change would make every file a new one."""


@lru_cache(maxsize=16)
def _volume_prefix(agent: str, host: str, mount: str) -> bytes:
    """Return what all names of one volume begin with: a scan finds many files of it in a row."""
    return b"".join(_part(text.encode()) for text in (agent, host, mount))


def _part(part: bytes) -> bytes:
    return struct.pack("!I", len(part)) + part


def _uuid5(namespace: UUID, name: bytes) -> UUID:
    """Return the UUIDv5 of *name*, which may be any bytes (RFC 4122)."""
    digest = hashlib.sha1(namespace.bytes + name, usedforsecurity=False).digest()
    return UUID(bytes=digest[:16], version=5)


def origin_id(
    *, agent: str, host: str, mount: str, inode: int, birth_ns: int, first_line: bytes, count: int
) -> UUID:
    """Return the id of one generation of a file (rule G2)."""
    own = map(_part, (b"%d" % inode, b"%d" % birth_ns, first_line, b"%d" % count))
    return _uuid5(NAMESPACE, _volume_prefix(agent, host, mount) + b"".join(own))


def source_id(origin: UUID, identity: str) -> UUID:
    """Return the id of a generation as sent by one client identity.

    So no client can move another's position (rule D6).
    """
    return _uuid5(origin, identity.encode())
