"""The deliberate bugs themselves: what each does wrong, and the lines that make it so."""

# ruff: noqa: E501 - what is replaced stands here as it stands there

from dataclasses import dataclass

Edits = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One bug: in *module*, each old text, which stands there once, is replaced by a new one."""

    name: str
    what: str
    module: str
    edits: Edits


_STORE = (
    Mutant(
        "store.ack_before_sync",
        "an append counts as durable once it is written",
        "logdrive.store.log",
        (
            (
                "            file.datasync()\n        except OSError as error:\n            with contextlib",
                "            pass\n        except OSError as error:\n            with contextlib",
            ),
        ),
    ),
    Mutant(
        "store.sync_error_swallowed",
        "a failed fdatasync is taken for a good one",
        "logdrive.store.log",
        (
            (
                "            with contextlib.suppress(OSError):  # the next start must not take for durable what only the page cache has\n"
                "                file.truncate(self.tip.position - self.files.bases[-1])\n"
                '            raise self._over(f"{self._path()} could not be synced: {error.strerror}") from error\n',
                "            del error\n",
            ),
        ),
    ),
    Mutant(
        "store.start_without_sync",
        "what a start finds in the page cache is told as durable",
        "logdrive.store.log",
        (("            self._file.datasync()\n", "            pass\n"),),
    ),
    Mutant(
        "store.name_not_synced",
        "a new log file's name is not synced",
        "logdrive.store.log",
        (("            file.datasync()\n            self._disk.sync_directory(self.files.directory)\n", "            file.datasync()\n"),),
    ),
    Mutant(
        "store.failed_write_kept",
        "what a failed write put down stays in the log",
        "logdrive.store.log",
        (
            (
                "            file.truncate(self.tip.position - self.files.bases[-1])\n            file.datasync()\n",
                "            file.datasync()\n",
            ),
        ),
    ),
    Mutant(
        "store.torn_tail_kept",
        "a torn entry at the log's end is not cut off at the start",
        "logdrive.store.recovery",
        (("            file.truncate(position - scan.base)\n", ""),),
    ),
    Mutant(
        "store.crc_not_compared",
        "an entry whose data is torn counts as whole",
        "logdrive.store.scan",
        ((" or crc_of([data]) != head.data_crc", ""),),
    ),
    Mutant(
        "store.face_no_compare_and_set",
        "the network face appends whatever grows, from whichever connection",
        "logdrive.store.pravega.appending",
        (("expected=writer.submitted,", "expected=None,"), ("            if writer.claim.lost:\n", "            if False:\n")),
    ),
    Mutant(
        "store.number_of_what_is_pending",
        "the number told is the one submitted, durable or not",
        "logdrive.store.engine",
        (
            (
                "while self._submissions.pending(segment, writer.bytes) is not None or self._submissions.comes_or_goes(segment):",
                "while self._submissions.comes_or_goes(segment):",
            ),
            (
                "        return self._durable(segment).numbers.get(writer.bytes, ABSENT)\n",
                "        return self._submissions.number(segment, writer.bytes)\n",
            ),
        ),
    ),
    Mutant(
        "store.numbers_not_indexed",
        "the index checkpoint forgets the writers' numbers",
        "logdrive.store.recovery",
        (
            (
                "        self._index, self._tip = snapshot.index, snapshot.tip\n",
                "        self._index, self._tip = snapshot.index, snapshot.tip\n        [segment.numbers.clear() for segment in self._index.by_name.values()]\n",
            ),
        ),
    ),
    Mutant(
        "store.face_acknowledges_early",
        "the network face acknowledges an append before it is durable",
        "logdrive.store.pravega.appending",
        (
            ("                await asyncio.wait([front.durable])\n", "                pass\n"),
            ("                if not item.durable.done():\n                    break\n", ""),
            ("                error = item.durable.exception()\n", "                error = None\n"),
            ("item.durable.result()", "0"),
        ),
    ),
)

_RECEIVER = (
    Mutant(
        "receiver.ack_before_durable",
        "a window is acknowledged as soon as it has ended",
        "receiver.acks",
        (("while self._waiting and self._waiting[0].holds == 0 and (last", "while self._waiting and (last"),),
    ),
    Mutant(
        "receiver.window_acked_after_failure",
        "a run that the sink failed is acknowledged with its window",
        "receiver.registration",
        (
            (
                "        elif self.state is State.LIVE and era == self._era:\n            self._refuse(window, error)\n",
                "        elif self.state is State.LIVE and era == self._era:\n            self._link.acks.release(window)\n",
            ),
        ),
    ),
    Mutant(
        "receiver.takes_what_does_not_follow",
        "a run is appended although it does not begin at the stored number",
        "receiver.writers",
        (("        return submitted is not None and previous == max(submitted, 0)\n", "        return submitted is not None\n"),),
    ),
    Mutant(
        "receiver.goes_on_after_failure",
        "after a failed run the next ones are appended",
        "receiver.registration",
        (
            (
                "        elif self.state is State.LIVE and era == self._era:\n            self._refuse(window, error)\n",
                "        elif self.state is State.LIVE and era == self._era:\n            self._link.acks.release(window)\n",
            ),
            ("        if self.state in (State.LIVE, State.REFUSING) and self._writer.follows(received.run.previous):", "        if True:"),
        ),
    ),
    Mutant(
        "receiver.refuses_in_silence",
        "after a failed run nobody is told from where to go on",
        "receiver.registration",
        (
            (
                "        self._link.services.counters.positions_corrected += 1\n        self._tell(number)\n",
                "        self._link.services.counters.positions_corrected += 1\n",
            ),
        ),
    ),
    Mutant(
        "receiver.foreign_ack_before_durable",
        "plain Lumberjack windows are acknowledged before they are durable",
        "receiver.foreign",
        (
            ("        window = link.acks.hold()\n", "        window = link.acks.hold()\n        link.acks.release(window)\n"),
            ("            self._link.acks.release(window)\n        else:  #", "            pass\n        else:  #"),
        ),
    ),
    Mutant(
        "receiver.header_of_the_wrong_place",
        "a header's previous position is one byte too high",
        "receiver.batch",
        (("            previous=position_of(run.previous),\n", "            previous=position_of(run.previous) + (run.previous > 0),\n"),),
    ),
)

_SINK = (
    Mutant(
        "sink.done_when_sent",
        "an append over the network counts as durable once it is sent",
        "logdrive.sinks.pravega_writer",
        (
            (
                "        self._link.send(unit.message)\n        self._in_flight.append(unit)\n",
                "        self._link.send(unit.message)\n        self._in_flight.append(unit)\n        unit.stored.set_result(0)\n",
            ),
        ),
    ),
    Mutant(
        "sink.number_from_memory",
        "a source's number is what this receiver submitted, not what the service says",
        "logdrive.sinks.pravega",
        (
            (
                "            client = await lane.up()\n            try:\n",
                "            client = await lane.up()\n            if (known := client.writers.of(place.name, writer)) is not None:\n                return known.submitted\n            try:\n",
            ),
        ),
    ),
    Mutant(
        "sink.failure_passed_over",
        "what was in flight when the connection ended counts as stored",
        "logdrive.sinks.pravega_writer",
        (
            (
                "            if not unit.stored.done():\n                unit.stored.set_exception(error)\n        self._in_flight",
                "            if not unit.stored.done():\n                unit.stored.set_result(0)\n        self._in_flight",
            ),
        ),
    ),
)

_AGENT = (
    Mutant(
        "agent.checkpoint_before_ack",
        "the checkpoint holds what was read, acknowledged or not",
        "agent.book",
        (
            (
                "        entry.number, entry.store = source.number, source.store\n",
                "        entry.number, entry.store = source.cursor, source.store\n",
            ),
        ),
    ),
    Mutant(
        "agent.resends_without_asking",
        "after a reconnect it goes on from its own number, whatever P says",
        "agent.resume",
        (("        return Resumed(told, _from(standing, told))\n", "        return Resumed(standing.number, standing.kept)\n"),),
    ),
    Mutant(
        "agent.trusts_its_checkpoint",
        "a P above its own position is taken for the position sent last",
        "agent.resume",
        (("        return Resumed(told, _from(standing, told))\n", "        return Resumed(told, standing.kept)\n"),),
    ),
    Mutant(
        "agent.off_by_one",
        "reading goes on one byte too early after a partial line",
        "agent.generation",
        (("        self.position += end - len(tail)\n", "        self.position += end - len(tail) - (end < len(data))\n"),),
    ),
    Mutant(
        "agent.regrown_file_not_noticed",
        "a file that was cut and grew past the position is read on",
        "agent.generation",
        (
            (
                "        if not data.startswith(tail) or len(data) - len(tail) < min(limit, self.unread):\n            raise TruncatedError\n",
                "",
            ),
            (
                '        """Compare all that was read before, without reading on. Raises `TruncatedError` (rule G4)."""\n',
                '        """Compare nothing."""\n        return\n',
            ),
            ("        if crc32(self.file.pread(self.first_line.span, 0)) != self.first_line.crc:\n            raise TruncatedError\n", ""),
            (
                "            if len(tail) < min(self.position, TAIL_BYTES) or (self._check and check_of(tail) != self._check):\n                raise TruncatedError\n",
                "",
            ),
        ),
    ),
    Mutant(
        "agent.truncation_not_noticed",
        "a file that became shorter is waited for",
        "agent.generation",
        (
            (
                "        if stat.size < self.seen:\n            raise TruncatedError\n",
                "        if stat.size < self.seen:\n            return\n",
            ),
        ),
    ),
    Mutant(
        "agent.rename_is_a_new_file",
        "a renamed file counts as removed, and what stands under the new name as another",
        "agent.tailer",
        (
            (
                "            if known.generation.place.is_at(stat):\n",
                "            if known.generation.place.is_at(stat) and known.generation.place.path == found.path:\n",
            ),
        ),
    ),
    Mutant(
        "agent.end_before_unread_bytes",
        "a removed file ends although bytes of it are unread",
        "agent.tailer",
        (
            (
                "        if followed.source is None or generation.unread == 0:\n            self.removed",
                "        if True:\n            self.removed",
            ),
        ),
    ),
    Mutant(
        "agent.removed_at_once",
        "a file without a name ends at once, open or not",
        "agent.tailer",
        (
            (
                "        if generation.unnamed_since is None or min(quiet, now - generation.unnamed_since) < settings.end_after_seconds:\n            return\n",
                "        if generation.unnamed_since is None:\n            return\n",
            ),
            (
                "        if followed.source is None or generation.unread == 0:\n            self.removed",
                "        if True:\n            self.removed",
            ),
        ),
    ),
    Mutant(
        "agent.gap_forgotten",
        "bytes that vanished unread are not told",
        "agent.source",
        (
            ("            if place > position_of(self.cursor):\n", "            if False:\n"),
            (
                "self.kept.append(end_run(self.cursor, mark, now_ms))\n",
                "self.kept.append(end_run(self.cursor, Mark(mark.reason), now_ms))\n",
            ),
        ),
    ),
    Mutant(
        "agent.next_life_under_the_same_name",
        "the life after a truncation takes the count of the one before",
        "agent.family",
        (("member in self.members if member is not source)]) + 1\n", "member in self.members if member is not source)])\n"),),
    ),
    Mutant(
        "agent.forgets_what_was_in_flight",
        "after a connection is lost, runs in flight count as sent",
        "agent.source",
        (
            (
                '        """Take notice that the connection is gone: what was in flight may or may not be stored."""\n        self.epoch += 1\n        self.sent = 0\n',
                '        """Take notice that the connection is gone."""\n        self.epoch += 1\n',
            ),
            (
                "        self.epoch += 1\n        self.sent = 0\n        self.must_register",
                "        self.epoch += 1\n        self.must_register",
            ),
        ),
    ),
    Mutant(
        "agent.ack_of_an_older_connection",
        "an acknowledgement counts for what was sent again since",
        "agent.source",
        (
            ("        if epoch != self.epoch:\n            return False\n", "        if not self.kept:\n            return False\n"),
            (
                '        assert self.kept[0] is run, "runs are acknowledged in the order in which they were sent"\n',
                "        run = self.kept[0]\n",
            ),
        ),
    ),
    Mutant(
        "agent.reads_behind_kept_runs",
        "after a P it reads on from where it was, without going back",
        "agent.source",
        (
            (
                "                if self.readable and self.generation is not None and self.generation.position != position_of(self.cursor):\n                    self.generation.go_to(self.cursor)\n                return Outcome",
                "                return Outcome",
            ),
        ),
    ),
    Mutant(
        "agent.holds_too_much",
        "windows in flight are not counted",
        "agent.session",
        (
            (
                "        if self.in_flight >= services.settings.windows_in_flight or self._due_in() != 0.0:\n",
                "        if self._due_in() != 0.0:\n",
            ),
        ),
    ),
)

_PIPELINE = (
    Mutant(
        "pipeline.cover_forgotten",
        "what is there already is kept again",
        "logdrive.pipeline.cover",
        (("        return subtract([(start, end)], touched)\n", "        return [(start, end)]\n"),),
    ),
    Mutant(
        "pipeline.gaps_not_counted",
        "the audit overlooks gaps",
        "logdrive.pipeline.audit",
        (
            (
                "    source.lost_bytes = sum(gap.lost_bytes for gap in source.gaps)\n",
                "    source.lost_bytes, source.lost_at_least = 0, False\n",
            ),
        ),
    ),
)

MUTANTS = (*_STORE, *_RECEIVER, *_SINK, *_AGENT, *_PIPELINE)
