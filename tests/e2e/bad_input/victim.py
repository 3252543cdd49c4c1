"""A receiver process that bad things happen to, and what it promised to those who behave."""

import contextlib
from pathlib import Path

from bench.processes import free_port
from tests.e2e.bad_input.bystanders import Promised, others_go_on
from tests.e2e.bad_input.outlaw import Said
from tests.support.installation import Installation, Process
from tests.support.pki import Pki


class Victim:
    """Runs from the start on; *face* is the port of its Pravega face."""

    def __init__(self, root: Path, pki: Pki) -> None:
        self.pki, self.face = pki, free_port()
        self.installation = Installation(
            root,
            pki.directory,
            receiver_extra=f'[listen.pravega]\naddress = "127.0.0.1:{self.face}"\n',
        )
        self.process: Process = self.installation.receiver()
        self.promised = Promised("dns:client.example")

    @property
    def port(self) -> int:
        return self.installation.port

    def said(self) -> Said:
        return Said(self.process.log)

    def others_go_on(self) -> contextlib.AbstractAsyncContextManager[None]:
        return others_go_on(
            self.port, self.pki.client(name="localhost", alpn=("logdrive/1",)), self.promised
        )

    def most_memory(self) -> int:
        """Return the most bytes that the process ever had in memory."""
        return self._status("VmHWM")

    def memory(self) -> int:
        """Return how many bytes the process has in memory."""
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(
            int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith(name)
        )

    def descriptors(self) -> int:
        """Return how many files and sockets the process has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self) -> None:
        """Drain, and judge."""
        code = self.process.terminate()
        assert code == 0, self.process.said()
        assert "Traceback" not in self.process.log.read_text()
        self.promised.check(self.installation.ledger())
