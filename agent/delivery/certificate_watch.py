"""Certificate watch: takes certificates that change on the disk, and warns before one ends.

The files are looked at at intervals. Once changed ones have stayed as they are for an interval, and
fit together, the connections are made anew, with nothing in flight. A renewal that is half written
waits for its other half.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Final

from agent.delivery.certificate_files import read_validities
from logdrive.errors import os_error_text
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.file_stamp import FileStamp, read_stamp
from logdrive.net.certificate_ends import ends_soon, warn_of_end
from logdrive.net.settings import ClientTlsConfig

_SECONDS: Final = 30.0
"""Seconds between two looks at the files."""
_WARN_SECONDS: Final = 86_400.0
"""Seconds between two warnings of one file."""

Stamps = tuple[FileStamp | None, ...]
"""The state of each file; None for one that is missing."""


class CertificateWatch:
    """Looks at the files that *tls* returns; None without TLS.

    *on_change* is called once other certificates can be used.
    """

    def __init__(
        self,
        tls: Callable[[], ClientTlsConfig | None],
        on_change: Callable[[], None],
        *,
        disk: Disk,
        clock: Clock,
        log: Any,
    ) -> None:
        self._tls = tls
        self._on_change = on_change
        self._disk = disk
        self._clock = clock
        self._log = log
        # The table that is watched, and the state of its files when they were taken.
        self._table: ClientTlsConfig | None = None
        self._taken: Stamps = ()
        # Their state at the last look, and why they can't be taken, as logged.
        self._seen: Stamps = ()
        self._problem = ""
        # When the ends of certificates are looked at again (monotonic seconds), unless they change.
        self._ends_due = 0.0
        self._ends_of: Stamps = ()
        # When each file was warned about last (monotonic seconds).
        self._warned: dict[str, float] = {}

    async def run(self) -> None:
        """Look at the files until cancelled."""
        while True:
            self.look()
            await self._clock.sleep(_SECONDS)

    def look(self, *, at_once: bool = False) -> None:
        """Look at the files; take changed ones that have rested since the last look.

        With *at_once* they need not have: the operator says that they are complete.
        """
        table = self._tls()
        if table is None:
            self._table = None
            return
        stamps = tuple(read_stamp(self._disk, path) for path in _paths(table))
        if table != self._table:
            # a connection by this table is made with what is there now
            self._table, self._taken, self._seen = table, stamps, stamps
        elif stamps != self._taken and (at_once or stamps == self._seen):
            self._take_changed(table, stamps)
        self._seen = stamps
        if self._clock.monotonic() >= self._ends_due or stamps != self._ends_of:
            self._warn_of_ends(table)
            self._ends_due, self._ends_of = self._clock.monotonic() + _WARN_SECONDS / 24, stamps

    def _take_changed(self, table: ClientTlsConfig, stamps: Stamps) -> None:
        problem = self.find_problem(table)
        if problem and problem != self._problem:
            self._log.warning(
                "certificates have changed and can't be used: the former ones are",
                reason=problem,
            )
        self._problem = problem
        if not problem:
            self._taken = stamps
            self._warned.clear()
            self._log.info("certificates have changed", files=", ".join(_paths(table)))
            self._on_change()

    def find_problem(self, table: ClientTlsConfig) -> str:
        """Return why the files can't be used, "" if they can."""
        try:
            for _ in read_validities(table, self._disk):
                pass
        except OSError as error:
            return f"{error.filename}: {os_error_text(error)}"
        except ValueError as error:
            return str(error)
        return ""

    def _warn_of_ends(self, table: ClientTlsConfig) -> None:
        """Warn of certificates that have ended, or will soon."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        at = self._clock.monotonic()
        try:
            validities = list(read_validities(table, self._disk))
        except (OSError, ValueError):
            return  # the connection says what is wrong with them
        for path, validity in validities:
            if not ends_soon(validity, now):
                continue
            if at - self._warned.get(path, -_WARN_SECONDS) >= _WARN_SECONDS:
                self._warned[path] = at
                remedy = "renew it: files that change are taken without a restart"
                warn_of_end(path, validity, now, remedy=remedy, log=self._log)


def _paths(table: ClientTlsConfig) -> Iterator[str]:
    return (path for path in (table.ca, table.cert, table.key) if path is not None)
