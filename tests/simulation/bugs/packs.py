"""Deliberate bugs in what makes, carries, stores and opens packs (rule R8)."""

from tests.simulation.bugs.mutant import Mutant

PACKS = (
    Mutant(
        "agent.packs_for_everyone",
        "packs are sent to receivers that did not agree to them",
        "agent.delivery.dialect_choice",
        (("        packs = peer.alpn == PACKED\n", "        packs = True\n"),),
    ),
    Mutant(
        "agent.refused_packs_forgotten",
        "without TLS, packs are sent again and again to a receiver that refused them",
        "agent.delivery.connection",
        (
            (
                "                self._without_packs[host] = now + _WITHOUT_PACKS_SECONDS\n",
                "                self._without_packs[host] = now\n",
            ),
        ),
    ),
    Mutant(
        "agent.packs_not_recast",
        "packs that are unacknowledged are sent to the next receiver, whatever it takes",
        "agent.delivery.encoders",
        (
            (
                "        carried = _JSON + _PACKS if self.form in _PACKS else _JSON if self.form in _JSON else ()\n",
                "        carried = _JSON + _PACKS\n",
            ),
        ),
    ),
    Mutant(
        "agent.pack_recast_from_its_end",
        "a pack whose file is gone becomes blocks without its last byte",
        "agent.delivery.recast",
        (("        text = pack.content\n", "        text = pack.content[:-1]\n"),),
    ),
    Mutant(
        "agent.pack_trimmed_too_little",
        "of a pack whose file is gone, what the store has already is sent again",
        "logdrive.records.trim",
        (
            (
                "    text = pack.content[position_of(previous) - position_of(run.previous) :]\n",
                "    text = pack.content\n",
            ),
        ),
    ),
    Mutant(
        "agent.last_line_not_counted",
        "a last line without its newline is no event of its pack",
        "logdrive.records.packed",
        (
            (
                "        events = count_lines(text, at, end) + (text[end - 1] != _NEWLINE)\n",
                "        events = count_lines(text, at, end) or 1\n",
            ),
        ),
    ),
    Mutant(
        "agent.pack_of_other_bytes",
        "a pack holds the bytes from the beginning of what was read, not from its run's",
        "logdrive.records.packed",
        (
            (
                "        return RunPack(PackForm.TEXT, memoryview(self._chunk.data)[at:end], self._packing)\n",
                "        text = memoryview(self._chunk.data)[: end - at]\n"
                "        return RunPack(PackForm.TEXT, text, self._packing)\n",
            ),
        ),
    ),
    Mutant(
        "wire.packs_not_compared_with_their_runs",
        "a pack is taken whatever its head says of its run",
        "logdrive.wire.lumberjack.run_reader",
        (
            (
                "            check_run(\n                head,\n                previous=position_of(run.previous),\n                position=position_of(run.number),\n                events=run.events,\n                skipped=run.skipped,\n            )\n",
                "            pass\n",
            ),
            ("from logdrive.packs.contents import check_run\n", ""),
        ),
    ),
    Mutant(
        "receiver.pack_without_its_form",
        "a header does not say that its record is a pack",
        "receiver.batch",
        (
            (
                "            form=msgspec.UNSET if pack is None else pack.form.in_header,\n",
                "            form=msgspec.UNSET,\n",
            ),
        ),
    ),
    Mutant(
        "receiver.records_called_text",
        "a header calls each pack one of text",
        "receiver.batch",
        (
            (
                "            form=msgspec.UNSET if pack is None else pack.form.in_header,\n",
                '            form=msgspec.UNSET if pack is None else "text",\n',
            ),
        ),
    ),
    Mutant(
        "receiver.damaged_pack_dropped",
        "a receiver that unpacks drops a pack that it can't open, and acknowledges it",
        "receiver.dialects.registration",
        (
            (
                "            self._log_damaged(received.run, error)\n            return iter((received,))\n",
                "            self._log_damaged(received.run, error)\n            return iter(())\n",
            ),
        ),
    ),
    Mutant(
        "receiver.unpacked_bytes_not_counted",
        "memory for what a pack holds is neither asked for nor counted",
        "receiver.dialects.logdrive1",
        (
            (
                "        allocation.opening, self._opened_bytes = 0, size\n",
                "        allocation.opening, self._opened_bytes = 0, 0\n",
            ),
            ("        allocation.opening = size =", "        size ="),
        ),
    ),
    Mutant(
        "packs.checksum_not_compared",
        "a pack may hold other bytes than those whose CRC-32 it names",
        "logdrive.packs.pack",
        (("    if isal_zlib.crc32(content) != head.crc:\n", "    if False:\n"),),
    ),
    Mutant(
        "packs.events_not_counted",
        "a pack may hold other events than its header counts",
        "logdrive.packs.contents",
        (("    if found != events:\n", "    if False:\n"),),
    ),
    Mutant(
        "packs.bytes_behind_the_end",
        "what stands behind the compressed content of a pack is overlooked",
        "logdrive.packs.pack",
        (("    if inflater.unused_data:\n", "    if False:\n"),),
    ),
    Mutant(
        "pipeline.damaged_pack_ends_the_run",
        "a pack that lies is an error, and no row",
        "logdrive.pipeline.decode.decode",
        (
            (
                "        except PackError as error:\n            self._next_single(row).add_damaged(pack, str(error))\n            return\n",
                "        except PackError:\n            raise\n",
            ),
        ),
    ),
    Mutant(
        "pipeline.damaged_pack_passed_over",
        "a pack that lies is passed over",
        "logdrive.pipeline.decode.decode",
        (
            (
                "            self._next_single(row).add_damaged(pack, str(error))\n            return\n",
                "            return\n",
            ),
        ),
    ),
    Mutant(
        "pipeline.left_out_not_told",
        "what a pack leaves out is not told as dropped",
        "logdrive.pipeline.decode.decode",
        (("        row.dropped += dropped\n", ""),),
    ),
)
