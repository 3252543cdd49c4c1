"""Deliberate bugs in what becomes of the times that writers note."""

from tests.simulation.bugs.mutant import Mutant

TIMES = (
    Mutant(
        "times.silent_not_waited_for",
        "a watermark does not wait for a writer that has noted nothing further",
        "logdrive.services.pravega.server.streams.watermarks",
        (
            (
                "            if judged.ahead and not judged.silent:\n",
                "            if judged.ahead:\n",
            ),
        ),
    ),
    Mutant(
        "times.latest_noted",
        "a watermark begins with the latest time that was noted, not with the earliest",
        "logdrive.services.pravega.server.streams.watermarks",
        (
            (
                "+ 1 if last is not None else 1, min(times), max(times)",
                "+ 1 if last is not None else 1, max(times), max(times)",
            ),
        ),
    ),
    Mutant(
        "times.place_of_the_last_writer",
        "a watermark's place is where the writer looked at last was, not where the furthest was",
        "logdrive.services.pravega.server.streams.watermarks",
        (
            (
                "            positions[segment] = max(offset, positions.get(segment, 0))\n",
                "            positions[segment] = offset\n",
            ),
        ),
    ),
    Mutant(
        "times.place_of_an_older_epoch",
        "a watermark's place is in the earliest epoch that a writer wrote in, not in the latest",
        "logdrive.store.streams.key_ranges",
        (
            (
                "    latest = max((epoch_of_id(number) for number in positions), default=0)\n",
                "    latest = min((epoch_of_id(number) for number in positions), default=0)\n",
            ),
        ),
    ),
    Mutant(
        "times.noted_in_memory",
        "a time counts as noted before it is durable",
        "logdrive.services.pravega.server.streams.writer_times",
        (
            (
                "        await self._catalog.commit_puts([WriterPut(scope, stream, writer, noted)])\n\n    def _checked_position",
                "        stream_state.writers[writer] = noted\n\n    def _checked_position",
            ),
        ),
    ),
    Mutant(
        "times.place_of_a_commit",
        "the time of a transaction is noted with a place before what it committed",
        "logdrive.services.pravega.server.streams.writer_times",
        (
            (
                "                position = {\n                    number: info.length for number, info in ends.items() if info is not None\n                }\n",
                "                position = {number: info.start for number, info in ends.items() if info is not None}\n",
            ),
        ),
    ),
    Mutant(
        "times.left_and_waited_for",
        "a writer that left is waited for",
        "logdrive.services.pravega.server.streams.watermarks",
        (
            (
                "        elif noted.leaving or now - since >= patience:\n",
                "        elif now - since >= patience:\n",
            ),
        ),
    ),
)
