"""Deliberate bugs that only a judge who counts and reads for himself can see: what is not told, not given back, cut wrongly, misread."""

from tests.simulation.bugs.mutant import Mutant

HOLDINGS = (
    Mutant(
        "agent.deaf_after_unlink",
        "what is written to an open file after its last name went is not read",
        "agent.inputs.files.file",
        (
            (
                "        self._grow_to(size, now)\n",
                "        if stat.links:\n            self._grow_to(size, now)\n",
            ),
        ),
    ),
    Mutant(
        "agent.gone_while_away_not_told",
        "a file that vanished while the agent was down is forgotten at its start",
        "agent.inputs.files.restore",
        (
            (
                "                self._await_copy(entry, GapOrEndMark(REMOVED, exact=False), settings)\n",
                "                pass\n",
            ),
        ),
    ),
    Mutant(
        "agent.truncated_while_away_not_told",
        "a life that was truncated while the agent was down is forgotten at its start",
        "agent.inputs.files.restore",
        (
            (
                "            self._await_copy(entry, mark, generation.settings)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "agent.endings_not_kept",
        "the checkpoint leaves out the lives that have ended",
        "agent.sources.registry",
        (
            (
                "        yield from self.ended.values()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "agent.handle_dropped",
        "a file that is to be closed is only forgotten",
        "agent.inputs.files.open_files",
        (
            (
                "            generation.close_handle()\n            self._open -= 1\n",
                "            generation.file = None\n            self._open -= 1\n",
            ),
        ),
    ),
    Mutant(
        "agent.idle_files_stay_open",
        "files that rest are not closed, however many are open",
        "agent.inputs.files.open_files",
        (
            (
                "        if not (short or (idle and self.is_crowded)):\n",
                "        if not short:\n",
            ),
        ),
    ),
    Mutant(
        "receiver.failure_keeps_its_run",
        "a source keeps the error of its last run, and with it the run",
        "receiver.dialects.registration",
        (
            (
                "        self._failure = str(error)\n",
                "        self._failure = error  # type: ignore[assignment]\n",
            ),
        ),
    ),
    Mutant(
        "receiver.memory_not_given_back",
        "what a lost connection had read of a window still counts",
        "receiver.memory_budget",
        (
            (
                "        self.set_buffered(0)\n        self._memory.end_overdraft(self)\n",
                "        self._memory.end_overdraft(self)\n",
            ),
        ),
    ),
    Mutant(
        "sink.keeps_what_it_wrote",
        "what was written last to a service stays in memory",
        "logdrive.services.pravega.client.channel",
        (
            (
                "        parts, self._outgoing = self._outgoing, []\n",
                "        parts = self._written = self._outgoing\n        self._outgoing = []\n",
            ),
        ),
    ),
    Mutant(
        "store.handle_of_a_freed_file",
        "a log file that is removed stays open for readers",
        "logdrive.store.reclaim",
        (("        self._reader.close_file(base)\n", ""),),
    ),
    Mutant(
        "freeing.empty_files_stay",
        "log files in which nothing lives are not removed",
        "logdrive.store.reclaim",
        (
            (
                "        empty = [base for base in self._files.ends if not self._files.live[base]]\n",
                "        empty: list[int] = []\n",
            ),
        ),
    ),
    Mutant(
        "retention.youngest_first",
        "retention cuts the segment whose oldest batch is the youngest",
        "logdrive.store.retention",
        (
            (
                "        oldest = [(self._time(cut), row) for row, cut in enumerate(cuts) if cut.at < cut.limit]\n",
                "        oldest = [(-self._time(cut), row) for row, cut in enumerate(cuts) if cut.at < cut.limit]\n",
            ),
            (
                "            _exceeds(kept, policy.max_bytes) or (before is not None and oldest[0][0] < before)\n",
                "            _exceeds(kept, policy.max_bytes) or (before is not None and -oldest[0][0] < before)\n",
            ),
            (
                "                and (time_ms := self._time(cut)) != cached_ms\n",
                "                and (time_ms := self._time(cut)) != -cached_ms\n",
            ),
            (
                "                heappush(oldest, (time_ms, row))\n",
                "                heappush(oldest, (-time_ms, row))\n",
            ),
            (
                "                    heappush(oldest, (self._time(cut), row))\n",
                "                    heappush(oldest, (-self._time(cut), row))\n",
            ),
        ),
    ),
    Mutant(
        "retention.too_young",
        "retention cuts what is half as old as it may be",
        "logdrive.store.retention",
        (
            (
                "        before = self._clock.now_ms() - policy.max_age_ms if policy.max_age_ms is not None else None\n",
                "        before = (\n            self._clock.now_ms() - policy.max_age_ms // 2 if policy.max_age_ms is not None else None\n        )\n",
            ),
        ),
    ),
    Mutant(
        "retention.age_overlooked",
        "retention leaves what is too old where the size is none too much",
        "logdrive.store.retention",
        (
            (
                "        if before is None and not _exceeds(kept, policy.max_bytes):\n",
                "        if not _exceeds(kept, policy.max_bytes):\n",
            ),
        ),
    ),
    Mutant(
        "pipeline.line_end_mistaken",
        "in a text, a line that ends with CR LF is taken for one that ends with LF",
        "logdrive.pipeline.decode.lines",
        (
            (
                "    codes = None if ends is None else np.frombuffer(ends, np.int8)\n",
                "    codes = None\n",
            ),
        ),
    ),
    Mutant(
        "pipeline.open_ends_overlooked",
        "an end that nobody saw counts as seen",
        "logdrive.pipeline.decode.headers",
        (
            (
                '        row.mark_exact = bool(mark.get("end_exact", True))\n',
                "        row.mark_exact = True\n",
            ),
        ),
    ),
    Mutant(
        "pipeline.wrong_part_kept",
        "of an event that is there in part already, its beginning is kept instead of the rest",
        "logdrive.pipeline.bronze.trim_rows",
        (
            (
                '    text = exact[start - row["start"] : end - row["start"]]\n',
                "    text = exact[: end - start]\n",
            ),
        ),
    ),
)
