"""Permissions of users on streams.

A grant is a pattern and a permission: `logs/*` = READ_UPDATE. A pattern is `scope/stream`, where
`*` matches any characters, or `*` alone for everything. Where several match, the highest permission
counts.
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

_PART: Final = r"[A-Za-z0-9._*-]+"
_PATTERN: Final = re.compile(rf"\*|{_PART}/{_PART}")


class Permission(IntEnum):
    """Each permission includes those before it. The names are Pravega's, as in tokens."""

    NONE = 0
    READ = 1
    READ_UPDATE = 2


class Grants:
    """The grants of one user, by pattern. Raises ValueError for a malformed pattern."""

    def __init__(self, grants: Mapping[str, Permission]) -> None:
        for pattern in grants:
            if _PATTERN.fullmatch(pattern) is None:
                raise ValueError(
                    f'{pattern!r}: write scope/stream, as in "logs/*", or "*" for everything'
                )
        self._grants = [(_Pattern(pattern), permission) for pattern, permission in grants.items()]

    def stream_permission(self, scope: str, stream: str) -> Permission:
        """Return the permission on one stream."""
        return max(
            (grant for pattern, grant in self._grants if pattern.fits(scope, stream)),
            default=Permission.NONE,
        )

    def scope_permission(self, scope: str) -> Permission:
        """Return the permission on a scope as a whole: that of grants on all of its streams."""
        return max(
            (grant for pattern, grant in self._grants if pattern.fits_scope(scope)),
            default=Permission.NONE,
        )

    def may_see_scope(self, scope: str) -> bool:
        """Return whether there is a grant on any stream of *scope*."""
        return any(grant and pattern.names_scope(scope) for pattern, grant in self._grants)


class _Pattern:
    def __init__(self, pattern: str) -> None:
        scope, _, stream = ("*/*" if pattern == "*" else pattern).partition("/")
        self._scope = _expression(scope)
        self._stream = _expression(stream)
        # it matches every stream of its scopes
        self._all = stream == "*"

    def names_scope(self, scope: str) -> bool:
        return self._scope.fullmatch(scope) is not None

    def fits(self, scope: str, stream: str) -> bool:
        return self.names_scope(scope) and self._stream.fullmatch(stream) is not None

    def fits_scope(self, scope: str) -> bool:
        return self._all and self.names_scope(scope)


def _expression(part: str) -> re.Pattern[str]:
    # runs of * are one: ".*.*" takes quadratic time
    return re.compile(".*".join(map(re.escape, re.sub(r"\*+", "*", part).split("*"))), re.DOTALL)
