"""Warns of files that can't be opened for lack of handles: one warning for all, with the remedy."""

import errno
from typing import Any, Final

from agent.sources.place import FileKey

HANDLE_ERRORS: Final = (errno.EMFILE, errno.ENFILE)
"""Error numbers of a failed open: no handle left for the process, or for the whole machine."""

_COUNTING_SECONDS: Final = 1.0
"""Seconds from the first failed open to the warning: files that fail meanwhile are counted."""

_AGAIN_SECONDS: Final = 600.0
"""Seconds between two warnings."""

_REMEDY: Final = (
    "raise LimitNOFILE in the service's unit (ulimit -n elsewhere): files take turns until then"
)
_REMEDY_SYSTEM: Final = "the whole machine has too many files open: raise fs.file-max (sysctl)"


class HandleShortage:
    """Counts the files that could not be opened since the last warning."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self._lacking: set[FileKey] = set()  # files to warn of
        self._since = 0.0  # when the first of them failed (s)
        self._handles = 0  # the most files that were open then
        self._warned_at: float | None = None  # when the last warning was logged (s)
        self._system = False  # whether the last failure was the machine's limit

    def on_open_failed(self, key: FileKey, error: OSError, now: float, handles: int) -> None:
        """Count the file *key*, which could not be opened at *now* (s).

        *error* has one of `HANDLE_ERRORS`; *handles* is the number of files open at that time.
        """
        if not self._lacking:
            self._since, self._handles = now, 0
        self._handles = max(self._handles, handles)
        self._lacking.add(key)
        self._system = error.errno == errno.ENFILE

    def warn_if_due(self, now: float) -> None:
        """Log a warning if files were counted and one is due. Call it often; it is cheap."""
        if not self._lacking or now - self._since < _COUNTING_SECONDS:
            return
        if self._warned_at is not None and now - self._warned_at < _AGAIN_SECONDS:
            return

        remedy = _REMEDY_SYSTEM if self._system else _REMEDY
        self._log.warning(
            "files wait to be opened: no handle is left",
            files=len(self._lacking),
            open_files=self._handles,
            remedy=remedy,
        )
        self._lacking.clear()
        self._warned_at = now
