"""What somebody may do with which streams.

A grant is a pattern and a permission: `logs/*` = READ_UPDATE. Patterns are `scope/stream`, `*` in
either part standing for any characters, or `*` alone for everything. Of several that fit, the
highest permission holds.
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

_PART: Final = r"[A-Za-z0-9._*-]+"
_PATTERN: Final = re.compile(rf"\*|{_PART}/{_PART}")


class Permission(IntEnum):
    """Each includes those before it. The names are Pravega's, in tokens too."""

    NONE = 0
    READ = 1
    READ_UPDATE = 2


class Grants:
    """What one user may do. Raises ValueError for a pattern that names nothing."""

    def __init__(self, grants: Mapping[str, Permission]) -> None:
        for pattern in grants:
            if _PATTERN.fullmatch(pattern) is None:
                raise ValueError(
                    f'{pattern!r}: write scope/stream, as in "logs/*", or "*" for everything'
                )
        self._grants = [(_Pattern(pattern), permission) for pattern, permission in grants.items()]

    def stream_permission(self, scope: str, stream: str) -> Permission:
        """Return what may be done with one stream."""
        return max(
            (grant for pattern, grant in self._grants if pattern.fits(scope, stream)),
            default=Permission.NONE,
        )

    def scope_permission(self, scope: str) -> Permission:
        """Return what may be done with a scope as a whole, which takes a grant for all of its
        streams.
        """
        return max(
            (grant for pattern, grant in self._grants if pattern.fits_scope(scope)),
            default=Permission.NONE,
        )

    def may_see_scope(self, scope: str) -> bool:
        """Tell whether anything may be done with any stream of *scope*."""
        return any(grant and pattern.names_scope(scope) for pattern, grant in self._grants)


class _Pattern:
    def __init__(self, pattern: str) -> None:
        scope, _, stream = ("*/*" if pattern == "*" else pattern).partition("/")
        self._scope, self._stream = _expression(scope), _expression(stream)
        self._all = stream == "*"

    def names_scope(self, scope: str) -> bool:
        return self._scope.fullmatch(scope) is not None

    def fits(self, scope: str, stream: str) -> bool:
        return self.names_scope(scope) and self._stream.fullmatch(stream) is not None

    def fits_scope(self, scope: str) -> bool:
        return self._all and self.names_scope(scope)


def _expression(part: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, re.sub(r"\*+", "*", part).split("*"))), re.DOTALL)
