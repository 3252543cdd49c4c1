"""How much the registered sources of all connections take, in bytes, and whether one connection may
register more.

None may hold more than is left: one alone takes half of the total at most, each of N greedy ones a
(N+1)th, and as much stays free. So who comes late, and needs little, is served though others
register all they can.
"""


class SourceQuota:
    """What all connections hold of *total* bytes."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0

    def open_share(self) -> "QuotaShare":
        """Return a new connection's share, which is empty."""
        return QuotaShare(self)


class QuotaShare:
    """What one connection holds."""

    __slots__ = ("_shares", "used")

    def __init__(self, shares: SourceQuota) -> None:
        self._shares = shares
        self.used = 0

    def reserve(self, size: int) -> bool:
        """Book *size* bytes; False, and nothing booked, where this connection would then hold more
        than is left.
        """
        shares = self._shares
        if self.used + size > shares.total - shares.used - size:
            return False
        self.used += size
        shares.used += size
        return True

    def release_bytes(self, size: int) -> None:
        """Say that *size* bytes are no longer held."""
        self.used -= size
        self._shares.used -= size

    def release_all(self) -> None:
        """Give everything back."""
        self.release_bytes(self.used)
