"""Keeps an input reachable under its path: a pipe or a Unix socket that another program removes.

Such as where the directory in /run is that of a service, which is deleted and made again when the
service is restarted. Without this the agent would go on reading what no program can find.
"""

from typing import Any, Final

from agent.inputs.local.ports import LocalInputs
from agent.inputs.spool.readers import Reader
from logdrive.errors import ConfigError
from logdrive.host.clock import Clock

_LOOK_SECONDS: Final = 2.0
"""Seconds between two looks at a path."""
_WARN_SECONDS: Final = 60.0
"""Seconds between two warnings of an input that can't be opened again."""


class KeptOpen:
    """Opens *reader* anew where something else stands under *path*, or nothing."""

    def __init__(
        self, reader: Reader, path: str, name: str, local: LocalInputs, clock: Clock, log: Any
    ) -> None:
        """Watch the *path* of the input *name*; the reader is open."""
        self._reader = reader
        self._path = path
        self._name = name
        self._local = local
        self._clock = clock
        self._log = log
        self._identity = local.identity_of(path)
        self._warned_at = float("-inf")  # monotonic, s

    async def run(self) -> None:
        """Look at the path until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            if self._local.identity_of(self._path) != self._identity:
                await self._reopen()

    async def _reopen(self) -> None:
        now = self._clock.monotonic()
        try:
            await self._reader.reopen()
        except ConfigError as error:
            if now - self._warned_at >= _WARN_SECONDS:
                self._warned_at = now
                self._log.warning(
                    "programs can't reach an input any more: its path is gone, or another's",
                    input=self._name,
                    reason=str(error),
                )
            return
        self._identity = self._local.identity_of(self._path)
        self._warned_at = float("-inf")
        self._log.warning(
            "an input was made again: its path was gone, or another's",
            input=self._name,
            path=self._path,
        )
