"""Deliberate bugs in what is bounded: the quota of sources, what waits for a peer or a disk."""

from tests.simulation.bugs.mutant import Mutant

BOUNDS = (
    Mutant(
        "receiver.quota_of_a_connection_kept",
        "what the sources of a connection took of the quota stays taken once it has ended",
        "receiver.dialects.logdrive1",
        (("        self._share.release_all()\n", "        pass\n"),),
    ),
    Mutant(
        "receiver.quota_of_a_source_kept",
        "what a source took of the quota stays taken once its index is freed",
        "receiver.dialects.logdrive1",
        (("        self._share.release_bytes(SOURCE_BYTES + registration.weight)\n", ""),),
    ),
    Mutant(
        "receiver.quota_taken_unasked",
        "a source beyond the quota is registered all the same",
        "receiver.source_quota",
        (("            return False\n", "            pass\n"),),
    ),
    Mutant(
        "receiver.refused_for_ever",
        "once one source was refused for want of room, its connection can register no other",
        "receiver.dialects.logdrive1",
        (
            (
                "if not self._share.reserve(",
                "if self._quota_logged or not self._share.reserve(",
            ),
        ),
    ),
    Mutant(
        "receiver.outbox_counts_for_ever",
        "what was written to a peer counts as waiting for it",
        "receiver.outbox",
        (
            (
                "        self._parts, self._size, self._has_ack = [], 0, False\n",
                "        self._parts, self._has_ack = [], False\n",
            ),
        ),
    ),
    Mutant(
        "receiver.outbox_unbounded",
        "a peer that reads nothing is never cut off, however much waits for it",
        "receiver.outbox",
        (("        if self._size > self._most:\n", "        if False:\n"),),
    ),
    Mutant(
        "face.claims_of_broken_connections",
        "the writers of a connection that broke count for ever towards how many there may be",
        "logdrive.services.pravega.server.segments.connection",
        (
            (
                "        self._appender.stop_accepting()\n        self._memory.release_all()\n",
                "        self._memory.release_all()\n",
            ),
        ),
    ),
    Mutant(
        "store.room_for_the_segment_alone",
        "a segment is made as soon as there is room for it, be there room for its policy or not",
        "logdrive.services.pravega.server.segments.lifecycle",
        ((", *[0] * len(policy))", ")"),),
    ),
    Mutant(
        "store.room_not_told",
        "who waits for room is not told when it is there",
        "logdrive.store.engine",
        (("        self._waiters.wake(_ROOM)\n", ""),),
    ),
    Mutant(
        "store.larger_than_all_waits",
        "an append larger than all that may wait is not taken alone",
        "logdrive.store.commit",
        (
            (
                "        return not self.pending_bytes or self.pending_bytes + more <= self._limits.pending\n",
                "        return self.pending_bytes + more <= self._limits.pending\n",
            ),
        ),
    ),
    Mutant(
        "store.pending_never_less",
        "what is durable counts as waiting for the disk",
        "logdrive.store.commit",
        (
            (
                "            self.pending_bytes -= sum(write.entry.length for write in group) + TOLL * len(group)\n",
                "            self.pending_bytes -= 0 + TOLL * len(group)\n",
            ),
        ),
    ),
)
