"""Who set a writer up last, over all connections of a face: the appends of whoever did before are
refused (rule S2).

Without this an append still on its way over an older connection could be stored after the newer one
was told the number. It would be a right one, and the newer connection's next append would fail; but
the number told would not have been the last word.
"""

from dataclasses import dataclass
from uuid import UUID

from logdrive.wire.pravega.limits import PRAVEGA_WRITERS_IN_ALL


@dataclass(slots=True, eq=False)
class WriterClaim:
    """One set-up of a writer in a segment. *lost*: there has been another one since."""

    segment: str
    writer: UUID
    superseded: bool = False


class WriterFence:
    """The claims that hold, one a writer and segment; as many as there are writers set up, *most*
    of them or a few more.
    """

    def __init__(self, most: int = PRAVEGA_WRITERS_IN_ALL) -> None:
        self._most = most
        self._latest: dict[tuple[str, UUID], WriterClaim] = {}

    @property
    def free_claims(self) -> int:
        """How many more there may be.

        No connection should have more than that: so who comes late finds room, too.
        """
        return self._most - len(self._latest)

    def __len__(self) -> int:
        return len(self._latest)

    def claim_writer(self, segment: str, writer: UUID) -> WriterClaim:
        """Return a new claim; the one before is lost."""
        claim = WriterClaim(segment, writer)
        before = self._latest.get((segment, writer))
        if before is not None:
            before.superseded = True
        self._latest[segment, writer] = claim
        return claim

    def release_claim(self, claim: WriterClaim) -> None:
        """Forget *claim*."""
        if self._latest.get((claim.segment, claim.writer)) is claim:
            del self._latest[claim.segment, claim.writer]
