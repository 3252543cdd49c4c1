"""Files that can't be opened because there is no handle left: one warning for all of them, with
their number and the remedy.
"""

import errno
from typing import Any, Final

from agent.sources.place import FileKey

CODES: Final = (errno.EMFILE, errno.ENFILE)
_COUNTING_SECONDS: Final = 1.0
"""After the first file that lacks a handle others are counted for so long before they are told
together.
"""
_AGAIN_SECONDS: Final = 600.0
_REMEDY: Final = (
    "raise LimitNOFILE in the service's unit (ulimit -n elsewhere): files take turns until then"
)
_REMEDY_SYSTEM: Final = "the whole machine has too many files open: raise fs.file-max (sysctl)"


class HandleShortage:
    """Counts the files that lacked a handle since it was told last, and tells of them at most every
    ten minutes.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._lacking: set[FileKey] = set()
        self._since = 0.0
        self._handles = 0
        self._told_at: float | None = None
        self._system = False

    def lacks(self, key: FileKey, code: int, now: float, handles: int) -> None:
        """Take notice that the file *key* could not be opened at *now* (s), for the reason *code*,
        one of `CODES`, while the others had so many *handles*.
        """
        if not self._lacking:
            self._since, self._handles = now, 0
        self._handles = max(self._handles, handles)
        self._lacking.add(key)
        self._system = code == errno.ENFILE

    def tell_if_due(self, now: float) -> None:
        """Warn of the files that lacked a handle, if that is due."""
        if not self._lacking or now - self._since < _COUNTING_SECONDS:
            return
        if self._told_at is not None and now - self._told_at < _AGAIN_SECONDS:
            return
        remedy = _REMEDY_SYSTEM if self._system else _REMEDY
        self._log.warning(
            "files wait to be opened: no handle is left",
            files=len(self._lacking),
            open_files=self._handles,
            remedy=remedy,
        )
        self._lacking.clear()
        self._told_at = now
