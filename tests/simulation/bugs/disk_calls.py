"""Deliberate bugs that show where something comes between two disk calls, where a call fails, or where a limit is met."""

from tests.simulation.bugs.mutant import Mutant

DISK_CALLS = (
    Mutant(
        "store.torn_file_kept",
        "a last log file of which not even the head is whole is not taken away",
        "logdrive.store.recovery",
        (("        self._disk.remove(path)\n", "        return\n"),),
    ),
    Mutant(
        "store.rotten_index_used",
        "an index is used although its checksum is wrong",
        "logdrive.store.index.snapshot",
        (("    if crc_of([body]) != _HEAD.unpack_from(data)[1]:\n", "    if False:\n"),),
    ),
    Mutant(
        "store.rotten_page_used",
        "a page of the index is used although its checksum is wrong",
        "logdrive.store.index.pages",
        (
            (
                "        whole = len(data) == size and _CRC.unpack_from(data)[0] == self._crc(file.name, page, rows)\n",
                "        whole = len(data) == size\n",
            ),
        ),
    ),
    Mutant(
        "agent.handles_counted_for_ever",
        "a handle that is given back counts as open",
        "agent.inputs.files.open_files",
        (
            (
                "            generation.close_handle()\n            self._open -= 1\n",
                "            generation.close_handle()\n",
            ),
        ),
    ),
    Mutant(
        "agent.lack_of_handles_unnoticed",
        "no handle is given back for a file that can't be opened for want of one",
        "agent.inputs.files.open_files",
        (
            (
                "            if error.errno in HANDLE_ERRORS:\n                self._failed_at = self._clock.monotonic()\n",
                "",
            ),
        ),
    ),
    Mutant(
        "agent.unseen_is_gone",
        "a file that can't be looked at is taken for removed",
        "agent.inputs.files.paths.locate",
        (
            (
                "            stat = self._disk.stat(path)\n        except FileNotFoundError:\n",
                "            stat = self._disk.stat(path)\n        except OSError:\n",
            ),
        ),
    ),
    Mutant(
        "agent.unlisted_is_empty",
        "a directory that can't be listed is taken for an empty one",
        "agent.inputs.files.paths.locate",
        (
            (
                "            with contextlib.suppress(FileNotFoundError):\n",
                "            with contextlib.suppress(OSError):\n",
            ),
            (
                "if name.startswith(begin))\n        except FileNotFoundError:\n",
                "if name.startswith(begin))\n        except OSError:\n",
            ),
        ),
    ),
    Mutant(
        "agent.device_of_before",
        "after a restart a file is known by the number that its device had before",
        "agent.inputs.files.restore",
        (
            (
                "                place.device, place.birth_ns = stat.device, stat.birth_ns or place.birth_ns\n",
                "                place.birth_ns = stat.birth_ns or place.birth_ns\n",
            ),
        ),
    ),
    Mutant(
        "agent.read_error_is_truncation",
        "a file that can't be read is taken for a truncated one",
        "agent.inputs.files.tail",
        (
            (
                "            self.compressed.seek(generation, source)\n        else:\n            self.looks.on_error(followed, error)\n",
                "            self.compressed.seek(generation, source)\n        else:\n            self.looks.end_truncated(followed)\n",
            ),
        ),
    ),
    Mutant(
        "store.older_index_without_pages",
        "pages that only the older index needs are removed",
        "logdrive.store.checkpoint",
        (
            (
                "            await self._executor.run(self._sweep, known | self._names)\n",
                "            await self._executor.run(self._sweep, self._names)\n",
            ),
        ),
    ),
    Mutant(
        "agent.end_found_late",
        "the end of a life that is found once its file can be looked at waits for the next connection",
        "agent.inputs.files.restore",
        (
            (
                "        self._tailer.enqueue_source(source)\n        return source\n",
                "        return source\n",
            ),
        ),
    ),
    Mutant(
        "agent.start_keeps_handles",
        "a file that can't be read when the agent starts keeps a handle at each attempt",
        "agent.inputs.files.restore",
        (
            (
                "            self._tailer.open_files.close_file(generation)\n            raise\n",
                "            raise\n",
            ),
        ),
    ),
)
