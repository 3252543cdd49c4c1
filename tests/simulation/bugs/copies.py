"""Deliberate bugs in what recognizes copies and compressed files (rule G5), and their lives."""

from tests.simulation.bugs.mutant import Mutant

COPIES = (
    Mutant(
        "copies.rest_not_looked_for",
        "what a truncated file lacked is told as a gap, copy or not",
        "agent.inputs.files.endings",
        (
            (
                "        if self._copies is not None and source is not None and unknown:\n",
                "        if False and self._copies is not None and source is not None and unknown:\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.end_before_the_rest",
        "a source that is read from a copy ends before all of that is read",
        "agent.inputs.files.endings",
        (
            (
                "        elif generation.unread or generation.release_all():\n            generation.release_last_line()\n        else:\n            self._copies.finish_rest(followed)\n",
                "        else:\n            self._copies.finish_rest(followed)\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.read_from_the_beginning",
        "a copy is read from its beginning, not from where the truncated life stopped",
        "agent.inputs.files.copies.copies",
        (
            (
                "        source.continue_with(generation, living=moved)\n",
                "        source.continue_with(generation, living=moved)\n        generation.resume_from(0)\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.each_file_is_new",
        "a copy gets a source of its own",
        "agent.inputs.files.copies.copies",
        (
            (
                "        if not self._registry.first_lines.find(first_line.crc):\n",
                "        if True:\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.position_not_compared",
        "the bytes before the position are not compared with those of a copy",
        "agent.inputs.files.copies.judge",
        (("        and sample.agrees_at(life.number)\n", ""),),
        of_files=True,
    ),
    Mutant(
        "copies.prefix_not_compared",
        "a file with the same first line is taken for a copy, whatever follows",
        "agent.inputs.files.prefix",
        (
            (
                "    return one[:length] == other[:length]\n",
                "    return one[:0] == other[:0]\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.forgotten_by_a_restart",
        "a source that waits for its copy is told as ended by the next start",
        "agent.inputs.files.restore",
        (
            (
                "        if self._tailer.copies is None:\n            self._restore_ended(",
                "        if True:\n            self._restore_ended(",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.seen_forgotten_by_a_restart",
        "a life whose bytes are gone takes another's number if the agent was started anew",
        "agent.sources.source",
        (
            (
                "            self.gone = SeenBytes(entry.seen, entry.last)\n",
                "            self.gone = None\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.draining_counts_as_looking",
        "a file that was compressed while an agent drained is unknown to the next run",
        "agent.app",
        (
            (
                "checkpoint.scanned or checkpoint.written",
                "checkpoint.written",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.packed_is_forgotten_unsent",
        "a compressed file of which nothing was sent is unknown to the next run",
        "agent.inputs.files.copies.judge",
        (
            (
                "    if not is_likely(suspect, life) and not (in_its_place and suspect.packed):\n",
                "    if not is_likely(suspect, life):\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.asked_for_before_the_next_life",
        "a copy is asked for while the next life may still be under its id",
        "agent.sources.incarnations",
        (
            (
                "            (member.counting.asks_several or member.store is None) and member",
                "            member.counting.asks_several and member",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.next_life_is_read_as_the_one_before",
        "the first read compares no more than the first line",
        "agent.inputs.files.file",
        (
            (
                "        if self.first_line is not None and self.position <= self.first_line.span:\n",
                "        if False:\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.absent_are_unknown",
        "a copy of a file that can't be looked for is taken for a new one",
        "agent.inputs.files.copies.judge",
        (
            (
                "    if (sure and related) or ((strong or related) and not suspect.rests):\n",
                "    if False:\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.closed_is_another",
        "a number that is closed is taken for another's while a copy is read",
        "agent.sources.resume",
        (
            (
                "    if not known.readable or known.awaited or is_own_end or known.complete_at(number):\n",
                "    if not known.readable or is_own_end or known.complete_at(number):\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.cut_is_whole",
        "a compressed file without its trailer counts as whole",
        "agent.inputs.files.compressed.codecs",
        (
            (
                "        if not (data := self._read_input()):\n            raise IncompleteError\n        return data\n",
                "        if not (data := self._read_input()):\n            self._stream = None\n        return data\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.packed_beginning_again",
        "a compressed file is sent again from its beginning",
        "agent.inputs.files.compressed.compressed_files",
        (
            (
                "        self._copies.take_over(awaited, generation, moved=False)\n",
                "        awaited.source.number = 0\n        self._copies.take_over(awaited, generation, moved=False)\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.packed_is_unknown",
        "a compressed file of a living source's bytes is sent as another",
        "agent.inputs.files.copies.judge",
        (
            (
                "    return Judgement(CopyVerdict.COPY, life) if has_no_more else NEW\n",
                "    return NEW\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.names_not_compared",
        "a file is held as a copy of one that begins like it, whatever their names",
        "agent.inputs.files.copies.known_life",
        (
            (
                "        return path in (self.path, self.name) or self.is_related(path)\n",
                "        return True\n",
            ),
            (
                "        return is_name_like((self.path, self.name), path)\n",
                "        return True\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.unreadable_are_none",
        "a rest is given up although what may have it could not be read",
        "agent.inputs.files.copies.copies",
        (
            (
                "        if isinstance(error, FileNotFoundError):\n",
                "        if isinstance(error, OSError):\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.late_ones_are_new",
        "a copy in a directory that could first be listed later is not looked for in the store",
        "agent.inputs.files.scanner",
        (
            (
                "                    is_first = all_new or (bool(self._unseen) and self._is_unseen(path))\n",
                "                    is_first = all_new\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.of_later_inputs_are_new",
        "a copy that an input names since a reload is not looked for in the store",
        "agent.inputs.files.scanner",
        (("at_start or self._reloaded, False\n", "at_start, False\n"),),
        of_files=True,
    ),
    Mutant(
        "copies.input_taken_away_ends_them",
        "a rest is told as a gap while no input names its file, though a copy has it",
        "agent.inputs.files.restore",
        (
            (
                "            self._registry.add_absent(entry, wanted=False)\n        else:\n",
                "            self._restore_ended(entry, GapOrEndMark(reason, entry.exact))\n        else:\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.input_taken_away_loses_what_was_read",
        "what was read of a copy and not acknowledged is a gap while no input names its file",
        "agent.inputs.files.restore",
        (
            (
                "                    self._restore_ending(entry, entry.ended)\n",
                "                    mark = GapOrEndMark(entry.ended, entry.exact)\n"
                "                    settings = self._settings_for(entry)\n"
                "                    if settings is None:\n"
                "                        self._restore_ended(entry, mark)\n"
                "                    else:\n"
                "                        self._await_copy(entry, mark, settings)\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.compressed_is_what_was_never_read",
        "a compressed file with the inode of one of which nothing was seen is read as that one",
        "agent.inputs.files.close_looks",
        (
            (
                "        if self._copies is None or generation.seen:\n",
                "        if True:\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.inode_is_enough",
        "the next generation begins in a file that has a closed one's inode, whatever its name",
        "agent.inputs.files.close_looks",
        (
            (
                "        if self.is_wanted(followed.generation.place):\n",
                "        if True:\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.unread_are_unknown",
        "a compressed file is sent as another although its own file is open and was not looked at",
        "agent.inputs.files.compressed.compressed_files",
        (
            (
                "                if is_unknown and self._copies.finds_unread(job.path, first_line):\n",
                "                if False and is_unknown:\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.counts_in_any_checkpoint",
        "a checkpoint is taken for complete though files had no source yet after one was lost",
        "agent.app",
        (
            (
                "        self.registry.set_uncounted(checkpoint is None or checkpoint.uncounted)\n",
                "        self.registry.set_uncounted(checkpoint is None)\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.held_go_untold",
        "a file that may be a copy goes untold before the store has said what it has",
        "agent.inputs.files.copies.copies",
        (
            (
                "            followed.set_held(True, covered=judged.covered)\n",
                "            followed.set_held(True, covered=True)\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.gone_contradict_nothing",
        "a file that is gone takes any open number that the store has for its first line",
        "agent.sources.source",
        (
            (
                "        gone = self.counting.asks_several and check.is_gone\n",
                "        gone = False\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.next_count_after_a_start",
        "a file whose count was still to come takes the next one at a start, though it was sent",
        "agent.sources.source_entry",
        (
            (
                "    counting = Counting.AFTER if source.counting is Counting.NEXT "
                "else source.counting\n",
                "    counting = source.counting\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.end_of_a_line_without_end",
        "the end of a file that was one line without end is not kept for a start",
        "agent.inputs.files.file",
        (("        self._crc = crc32(data[-TAIL_BYTES:])\n", ""),),
        of_files=True,
    ),
    Mutant(
        "copies.size_of_the_life_before",
        "a file truncated between its size and its first bytes is taken for the life before",
        "agent.inputs.files.beginnings",
        (("        generation.verify_seen(head)\n", ""),),
        of_files=True,
    ),
    Mutant(
        "copies.number_of_the_life_before",
        "a number is compared with the bytes of the next life",
        "agent.inputs.files.content",
        (
            (
                "        self.verify_content()\n        self.verify_seen()\n        return False\n",
                "        return False\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.absent_is_no_sibling",
        "no file that could not be looked for at a start is asked for as one that was copied",
        "agent.inputs.files.copies.search",
        (
            (
                "        for absent in self._registry.absent.values():\n            yield _place_in(absent)\n",
                "",
            ),
        ),
        of_events=True,
    ),
    Mutant(
        "copies.second_life_is_new",
        "without a checkpoint only the first life of a file may be like one of before",
        "agent.inputs.files.followed",
        (
            (
                "        self.source = None\n        self.found_at_start",
                "        if self.source is not None:\n            self.counting = Counting.KNOWN\n        self.source = None\n        self.found_at_start",
            ),
        ),
        of_events=True,
    ),
    Mutant(
        "copies.other_store_knows_nothing",
        "what was read of a file that is gone is forgotten once another store has less of it",
        "agent.sources.source_entry",
        (
            (
                "    number, store = source.greatest\n",
                "    number, store = source.number, source.store\n",
            ),
            (
                "        entry.last = max(entry.last, entry.number, key=position_of)\n",
                "        pass\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.what_is_set_aside_counts",
        "NULs at the end of a compressed file make it another than the file of one line it is of",
        "agent.inputs.files.copies.judge",
        (
            (
                "    all_text = sample.text_size <= known_to <= sample.size\n",
                "    all_text = sample.size == known_to\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.head_with_unwritten_nuls",
        "NULs that nothing follows yet are a part of the first bytes of a file",
        "agent.inputs.files.file",
        (
            (
                "        return self._without_tail(head, 0) if self._tail is None else head[: self.seen]\n",
                "        return head if self._tail is None else head[: self.seen]\n",
            ),
        ),
        of_files=True,
    ),
    Mutant(
        "copies.copy_is_sent_again",
        "a file that was truncated unseen is sent again from its copy",
        "agent.inputs.files.tail",
        (
            (
                " or followed.ending is not None:\n            return None\n        self._endings",
                ":\n            return None\n        self._endings",
            ),
        ),
        of_files=True,
        of_events=True,
    ),
    Mutant(
        "copies.end_of_a_life_that_is_gone",
        "the bytes at the end of a file are those of the moment in which it was empty",
        "agent.inputs.files.content",
        (
            (
                "            # truncated and written again meanwhile, it has these bytes\n            before = self._read_before(size)\n",
                "",
            ),
        ),
        of_events=True,
    ),
    Mutant(
        "copies.lines_of_the_next_life",
        "lines are read of a life that came since the first line was compared",
        "agent.inputs.files.file",
        (("        self._verify_beginning(data, self.position - before)\n", ""),),
        of_events=True,
    ),
    Mutant(
        "copies.first_bytes_of_the_next_life",
        "a file truncated and written between its end and its first bytes is the life before",
        "agent.inputs.files.content",
        (
            (
                "            self._verify_end()\n"
                "        elif crc32(head[max(0, end - TAIL_BYTES) : end]) != crc:\n"
                "            raise SourceTruncatedError\n",
                "",
            ),
        ),
        of_events=True,
    ),
    Mutant(
        "copies.own_compressed_file_at_its_end",
        "a compressed file sent as its own that is read to its end is not looked for after a start",
        "agent.inputs.files.restore",
        (
            (
                "(TRUNCATED, REMOVED, OUT_OF_SIGHT, LET_GO, SHIPPED)",
                "(TRUNCATED, REMOVED, OUT_OF_SIGHT, LET_GO)",
            ),
        ),
        of_events=True,
    ),
)
