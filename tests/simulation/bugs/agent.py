"""Deliberate bugs in the agent."""

from tests.simulation.bugs.mutant import Mutant

AGENT = (
    Mutant(
        "agent.checkpoint_before_ack",
        "the checkpoint holds what was read, acknowledged or not",
        "agent.sources.source_entry",
        (
            (
                "    number, store = source.greatest\n",
                "    number, store = source.cursor, source.store\n",
            ),
        ),
    ),
    Mutant(
        "agent.resends_without_asking",
        "after a reconnect it goes on from its own number, whatever P says",
        "agent.sources.resume",
        (
            (
                "        return Resumed(stored, _after(known, stored))\n",
                "        return Resumed(known.number, known.runs)\n",
            ),
        ),
    ),
    Mutant(
        "agent.trusts_its_checkpoint",
        "a P above its own position is taken for the position sent last",
        "agent.sources.resume",
        (
            (
                "        return Resumed(stored, _after(known, stored))\n",
                "        return Resumed(stored, known.runs)\n",
            ),
        ),
    ),
    Mutant(
        "agent.off_by_one",
        "reading goes on one byte too early after a partial line",
        "agent.inputs.files.file",
        (
            (
                "        self.position += chunk.end - chunk.begin\n",
                "        self.position += chunk.end - chunk.begin - (chunk.end < len(chunk.data))\n",
            ),
        ),
    ),
    Mutant(
        "agent.regrown_file_not_noticed",
        "a file that was cut and grew past the position is read on",
        "agent.inputs.files.content",
        (
            (
                "        if crc32(data[:before]) != crc or len(data) - before < at_least:\n            raise SourceTruncatedError\n",
                "",
            ),
            (
                '        """Compare the first line and the bytes before the position (rule G4).\n\n        Raises `SourceTruncatedError` if they differ.\n        """\n',
                '        """Compare nothing."""\n        return\n',
            ),
            (
                "        if crc32(self.file.pread(self.first_line.span, 0)) != self.first_line.crc:\n            raise SourceTruncatedError\n",
                "",
            ),
            (
                "            if len(tail) < min(self.position, TAIL_BYTES) or (\n                self._check and check_of(tail) != self._check\n            ):\n                raise SourceTruncatedError\n",
                "",
            ),
        ),
    ),
    Mutant(
        "agent.nuls_read_before_they_are_written",
        "space that a writer has set aside is read as a line of NULs",
        "agent.inputs.files.file",
        (
            (
                '        if not before.endswith(b"\\0") or self.whole:\n',
                "        if True:\n",
            ),
        ),
    ),
    Mutant(
        "agent.nuls_read_with_a_last_line",
        "NULs beyond the end seen last are read with the lines before them",
        "agent.inputs.files.file",
        (
            (
                '        if not data.endswith(b"\\0") or self.whole or begin + len(data) <= self.seen:\n',
                "        if True:\n",
            ),
        ),
    ),
    Mutant(
        "agent.truncation_not_noticed",
        "a file that became shorter is waited for",
        "agent.inputs.files.file",
        (
            (
                "        if stat.size < self.seen:\n            raise SourceTruncatedError\n",
                "        if stat.size < self.seen:\n            return\n",
            ),
        ),
    ),
    Mutant(
        "agent.rename_is_a_new_file",
        "a renamed file counts as removed, and what stands under the new name as another",
        "agent.inputs.files.tail",
        (
            (
                "            if is_same and not",
                "            if is_same and place.path == match.path and not",
            ),
        ),
    ),
    Mutant(
        "agent.end_before_unread_bytes",
        "a removed file ends although bytes of it are unread",
        "agent.inputs.files.endings",
        (
            (
                "        if rests and is_done:\n",
                "        if rests:\n",
            ),
        ),
    ),
    Mutant(
        "agent.removed_at_once",
        "a file without a name ends at once, open or not",
        "agent.inputs.files.endings",
        (
            (
                "        if rests and is_done:\n",
                "        if generation.unnamed_since is not None:\n",
            ),
        ),
    ),
    Mutant(
        "agent.gap_forgotten",
        "bytes that vanished unread are not told",
        "agent.sources.ending",
        (
            ("        if end > position_of(cursor):\n", "        if False:\n"),
            (
                "    runs.append(make_end_run(cursor, mark, now_ms))\n",
                "    runs.append(make_end_run(cursor, GapOrEndMark(mark.reason), now_ms))\n",
            ),
        ),
    ),
    Mutant(
        "agent.next_life_under_the_same_name",
        "the life after a truncation takes the count of the one before",
        "agent.sources.incarnations",
        (
            (
                "        return max([self.highest_ended, *counts]) + 1\n",
                "        return max([self.highest_ended, *counts])\n",
            ),
        ),
    ),
    Mutant(
        "agent.forgets_what_was_in_flight",
        "after a connection is lost, runs in flight count as sent",
        "agent.sources.unacknowledged",
        (("        self.epoch += 1\n        self.sent = 0\n", "        self.epoch += 1\n"),),
    ),
    Mutant(
        "agent.ack_of_an_older_connection",
        "an acknowledgement counts for what was sent again since",
        "agent.sources.unacknowledged",
        (
            (
                "        if epoch != self.epoch:\n            return False\n",
                "        if not self.runs:\n            return False\n",
            ),
            (
                '        assert self.runs[0] is run, "runs are acknowledged in the order in which they were sent"\n',
                "",
            ),
        ),
    ),
    Mutant(
        "agent.reads_behind_kept_runs",
        "after a P it reads on from where it was, without going back",
        "agent.sources.source",
        (
            (
                "                self._drop_start(resumed)\n                self._read_from_cursor()\n",
                "                self._drop_start(resumed)\n",
            ),
        ),
    ),
    Mutant(
        "agent.holds_too_much",
        "windows in flight are not counted",
        "agent.delivery.session",
        (
            (
                "        if self.in_flight >= services.settings.windows_in_flight or self._due_in() != 0.0:\n",
                "        if self._due_in() != 0.0:\n",
            ),
        ),
    ),
    Mutant(
        "agent.sends_again_at_once",
        "a file is sent again before the checkpoint says so",
        "agent.control.changes",
        (("            one.withheld = True\n", "            one.withheld = False\n"),),
        of_events=True,
    ),
)
