"""Source quota: the bytes that registered sources take, of one connection and of all.

A connection may use at most as much as is still free: one alone half of the total, each of N greedy
ones 1/(N+1), and as much stays free. So a connection that comes late and needs little is served
even if others register all they can.
"""


class SourceQuota:
    """The quota of all connections, in bytes."""

    def __init__(self, total: int) -> None:
        self.total = total  # limit for all connections
        self.used = 0  # by all connections

    def open_share(self) -> "QuotaShare":
        """Return the share of a new connection, which is empty."""
        return QuotaShare(self)


class QuotaShare:
    """What one connection uses of the quota, in bytes."""

    __slots__ = ("_shares", "used")

    def __init__(self, shares: SourceQuota) -> None:
        self._shares = shares
        self.used = 0  # by this connection

    def reserve(self, size: int) -> bool:
        """Reserve *size* bytes and return True, or reserve nothing and return False if this
        connection would then use more than is free.
        """
        shares = self._shares
        # compared with what is free afterwards: as much stays for a connection that comes later
        if self.used + size > shares.total - shares.used - size:
            return False
        self.used += size
        shares.used += size
        return True

    def release_bytes(self, size: int) -> None:
        """Release *size* reserved bytes."""
        self.used -= size
        self._shares.used -= size

    def release_all(self) -> None:
        """Release all that is reserved."""
        self.release_bytes(self.used)
