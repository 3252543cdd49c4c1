"""Deliberate bugs in the store."""

from tests.simulation.bugs.mutant import Mutant

STORE = (
    Mutant(
        "store.ack_before_sync",
        "an append counts as durable once it is written",
        "logdrive.store.log.log",
        (
            (
                '        faults.reach("store.commit.before_sync")\n        try:\n            file.datasync()\n        except OSError as error:\n',
                '        faults.reach("store.commit.before_sync")\n        try:\n            pass\n        except OSError as error:\n',
            ),
        ),
    ),
    Mutant(
        "store.sync_error_swallowed",
        "a failed fdatasync is taken for a good one",
        "logdrive.store.log.log",
        (
            (
                '            # the next start must not read from the page cache what is not on the disk\n            with contextlib.suppress(OSError):\n                file.truncate(self.tip.position - self.files.bases[-1])\n            raise self._over(\n                f"{self._path()} could not be synced: {os_error_text(error)}"\n            ) from error\n',
                "            del error\n",
            ),
        ),
    ),
    Mutant(
        "store.start_without_sync",
        "what a start finds in the page cache is told as durable",
        "logdrive.store.log.log",
        (("            self._file.datasync()\n", "            pass\n"),),
    ),
    Mutant(
        "store.name_not_synced",
        "a new log file's name is not synced",
        "logdrive.store.log.log",
        (
            (
                "            file.datasync()\n            self._disk.sync_directory(self.files.directory)\n",
                "            file.datasync()\n",
            ),
        ),
    ),
    Mutant(
        "store.failed_write_kept",
        "what a failed write put down stays in the log",
        "logdrive.store.log.log",
        (
            (
                "                file.truncate(size)\n                file.datasync()\n",
                "                file.datasync()\n",
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
        "logdrive.store.log.scan",
        ((" or crc_of([data]) != head.data_crc", ""),),
    ),
    Mutant(
        "store.number_of_what_is_pending",
        "the number told is the one submitted, durable or not",
        "logdrive.store.engine",
        (
            (
                "        limits: StoreLimits = StoreLimits(),\n",
                "        limits: StoreLimits = StoreLimits(),  # noqa: B008 - frozen\n",
            ),
            (
                "        while self._pending.last_pending(\n            segment, writer.bytes\n        ) is not None or self._pending.existence_is_pending(segment):\n",
                "        while self._pending.existence_is_pending(segment):\n",
            ),
            (
                "        return self._index.number(self._durable(segment), writer.bytes)\n",
                "        return self._pending.number(segment, writer.bytes)\n",
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
                "        self._index, self._tip = snapshot.index, snapshot.tip\n        self._index.stored_numbers.runs = []\n",
            ),
        ),
    ),
    Mutant(
        "store.face_acknowledges_early",
        "the network face acknowledges an append before it is durable",
        "logdrive.services.pravega.server.segments.appending",
        (
            ("                await asyncio.wait([front.durable])\n", "                pass\n"),
            (
                "                if not item.durable.done():\n                    break\n                error = item.durable.exception()\n",
                "                error = None\n",
            ),
            (
                "        acks.append(\n            DataAppended(\n                writer.id, item.number, writer.acknowledged, item.request_id, item.durable.result()\n            )\n        )\n",
                "        acks.append(DataAppended(writer.id, item.number, writer.acknowledged, item.request_id, 0))\n",
            ),
        ),
    ),
)
