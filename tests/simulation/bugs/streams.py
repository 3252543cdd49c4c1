"""Deliberate bugs in what becomes of streams: retention, the freeing of log files, scaling; and in tables."""

from tests.simulation.bugs.mutant import Mutant

STREAMS = (
    Mutant(
        "retention.reader_overtaken",
        "retention cuts off what the named reader has not read",
        "logdrive.store.retention",
        (
            (
                "        return min(\n            [\n                length,\n                needed,\n                *(start if position == ABSENT else max(start, position) for position in positions),\n            ]\n        )\n",
                "        return min(length, needed)\n",
            ),
        ),
    ),
    Mutant(
        "retention.too_much",
        "retention cuts off all that was read, however little there is",
        "logdrive.store.retention",
        (("    return limit is not None and kept > limit\n", "    return limit is not None\n"),),
    ),
    Mutant(
        "retention.within_a_batch",
        "retention cuts behind a batch's header",
        "logdrive.store.boundaries",
        (
            (
                "    if batch is not None and batch.next <= length:\n        return batch.next\n",
                "    if batch is not None and batch.body <= length:\n        return batch.body\n",
            ),
        ),
    ),
    Mutant(
        "freeing.older_index_forgotten",
        "a log file is removed although a start from the index there would need it",
        "logdrive.store.reclaim",
        (
            (
                "            needed = end > self._checkpoint.needed_from\n",
                "            needed = False\n",
            ),
            (
                "        if end > self._checkpoint.needed_from:\n            return False  #",
                "        if False:\n            return False  #",
            ),
        ),
    ),
    Mutant(
        "freeing.with_what_lives",
        "a log file goes with what little still lives in it",
        "logdrive.store.reclaim",
        (
            (
                "        empty = [base for base in self._files.ends if not self._files.live[base]]\n",
                "        empty = [\n            base\n            for base, end in self._files.ends.items()\n            if self._files.live[base] * _SPARSE < end - base\n        ]\n",
            ),
        ),
    ),
    Mutant(
        "scaling.number_left_behind",
        "in the own store, a source has no number in a segment that scaling made",
        "logdrive.services.embedded.segments",
        (
            (
                "        before = await self._number_before(segment, writer)\n",
                "        before = ABSENT\n",
            ),
        ),
    ),
    Mutant(
        "scaling.number_left_behind_at_the_service",
        "at a service, a source has no number in a segment that scaling made",
        "logdrive.services.pravega.client.predecessors",
        (("        number = await self._last_number(segment, writer)\n", "        return True\n"),),
    ),
    Mutant(
        "scaling.one_segment_back",
        "a source's number is looked for in the segment before only, not in those before that",
        "logdrive.services.embedded.segments",
        (("            successor = earlier[0]\n", "            break\n"),),
    ),
    Mutant(
        "table.nothing_compared",
        "a table's conditional update is made whatever the key's version is",
        "logdrive.services.pravega.server.tables.table",
        (
            (
                "            if entry.version != key.version:\n",
                "            if entry.version < key.version:\n",
            ),
        ),
    ),
    Mutant(
        "table.answered_early",
        "a table's update is acknowledged before it is durable",
        "logdrive.services.pravega.server.tables.tables",
        (
            (
                "                continue\n            await wait_until_durable(table.pending)\n",
                "                continue\n",
            ),
        ),
    ),
)
