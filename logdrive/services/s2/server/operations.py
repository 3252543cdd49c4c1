"""S2's operations, as access tokens name them, and the operations that a token's scope allows."""

from typing import Final

from logdrive.services.s2.server.state import NameSet, ReadWrite, TokenScope

_READ, _WRITE = "read", "write"

OPERATIONS: Final = {
    "account": {
        "list-basins": _READ,
        "create-basin": _WRITE,
        "delete-basin": _WRITE,
        "reconfigure-basin": _WRITE,
        "get-basin-config": _READ,
        "issue-access-token": _WRITE,
        "revoke-access-token": _WRITE,
        "list-access-tokens": _READ,
        "account-metrics": _READ,
        "list-locations": _READ,
        "get-default-location": _READ,
        "set-default-location": _WRITE,
    },
    "basin": {
        "list-streams": _READ,
        "create-stream": _WRITE,
        "delete-stream": _WRITE,
        "get-stream-config": _READ,
        "reconfigure-stream": _WRITE,
        "basin-metrics": _READ,
    },
    "stream": {
        "check-tail": _READ,
        "append": _WRITE,
        "read": _READ,
        "trim": _WRITE,
        "fence": _WRITE,
        "stream-metrics": _READ,
    },
}
"""The operations of each group, and which permission on the group allows them."""

ALL: Final = frozenset(name for group in OPERATIONS.values() for name in group)
READING: Final = frozenset(
    name for group in OPERATIONS.values() for name, needed in group.items() if needed == _READ
)


def permitted_operations(scope: TokenScope) -> frozenset[str]:
    """Return the operations that *scope* allows: those named, and those of its groups."""
    permitted = {name for name in scope.ops if name in ALL}
    for group, operations in OPERATIONS.items():
        has: ReadWrite | None = getattr(scope.op_groups, group, None)
        if has is not None:
            permitted |= {name for name, needed in operations.items() if getattr(has, needed)}
    return frozenset(permitted)


def is_within(inner: NameSet | None, outer: NameSet | None) -> bool:
    """Return whether *outer* has every name that *inner* has; None has no names."""
    if inner is None or inner.exact == "":
        return True
    if outer is None:
        return False
    if inner.exact is not None:
        return outer.has(inner.exact)
    return (
        outer.exact is None
        and outer.prefix is not None
        and (inner.prefix or "").startswith(outer.prefix)
    )
