"""Fencing of writers (rule S2): only the connection that set a writer up last may append for it.

Without fencing, an append still under way on an older connection could be stored after the newer
connection was told the writer's number. No data would be wrong: the newer connection's next append
would be refused. But the number that it was told would not have been final.
"""

from dataclasses import dataclass
from uuid import UUID

from logdrive.wire.pravega.limits import PRAVEGA_WRITERS_IN_ALL


@dataclass(slots=True, eq=False)
class WriterClaim:
    """One set-up of a writer in a segment. *superseded*: there was another one since."""

    segment: str
    writer: UUID
    superseded: bool = False


class WriterFence:
    """The valid claims of a face, one for each writer and segment that is set up.

    *most* is how many there should be: connections forget writers above it (`free_claims`).
    """

    def __init__(self, most: int = PRAVEGA_WRITERS_IN_ALL) -> None:
        self._most = most
        self._latest: dict[tuple[str, UUID], WriterClaim] = {}

    @property
    def free_claims(self) -> int:
        """How many more claims there may be; negative above the limit.

        A connection keeps no more writers than this, so that later connections find room, too.
        """
        return self._most - len(self._latest)

    def __len__(self) -> int:
        return len(self._latest)

    def claim_writer(self, segment: str, writer: UUID) -> WriterClaim:
        """Return a new claim for a writer; the claim before it, if any, is superseded."""
        claim = WriterClaim(segment, writer)
        before = self._latest.get((segment, writer))
        if before is not None:
            before.superseded = True
        self._latest[segment, writer] = claim
        return claim

    def release_claim(self, claim: WriterClaim) -> None:
        """Give *claim* up; no effect if it was superseded."""
        if self._latest.get((claim.segment, claim.writer)) is claim:
            del self._latest[claim.segment, claim.writer]
