"""Random histories of an agent that may fall back.

Whatever dialect the receiver speaks on each connection, every byte of every file arrives unchanged,
and a source once registered under logdrive/1 is never sent as plain Lumberjack (D8, R2, adr/0018).
"""

import random
from itertools import pairwise

import orjson
import pytest

from logdrive.host.transport import ByteStream
from tests.agent.inputs.files.rebuild import bytes_of
from tests.agent.test_auto import tls_with
from tests.agent.test_dialects import TLS, PlainModel
from tests.agent.v1_model import V1Model, file_bytes_of
from tests.agent.world import World
from tests.support.memory.transport import MemoryListener
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

SPOKEN = (("logdrive/1",), ("lumberjack/2",), ("lumberjack/1",), ())
LINES = (
    b"line\n",
    b"crlf\r\n",
    b"\xff\xfe\n",
    "zwölf €\n".encode(),
    b"\n",
    b"x" * 700 + b"\n",
    b"no end",
)


class History:
    """A world with one receiver that changes its dialect."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World(seed, end_after_seconds=3, quiet_seconds=2)
        self.world.settings["output"] |= {"dialect": "auto", "tls": TLS}
        self.native, self.v2, self.v1 = ReaderModel("reader"), PlainModel(), V1Model()
        self.v2.forgetful = self.v1.forgetful = True
        self.world.readers["reader"] = self.native
        self.files: dict[str, bytes] = {}
        self.gone: set[str] = set()
        self.listener: MemoryListener | None = None
        self.connections = dict.fromkeys(SPOKEN, 0)

    async def speak(self, alpn: tuple[str, ...]) -> None:
        """Let the receiver speak another dialect from now on."""
        if self.listener is not None:
            await self.listener.close()
        models: dict[tuple[str, ...], ReaderModel | V1Model] = {
            ("logdrive/1",): self.native,
            ("lumberjack/1",): self.v1,
        }
        model = models.get(alpn, self.v2)

        async def accept(stream: ByteStream) -> None:
            self.connections[alpn] += 1
            known = {path for path in self.files if self.native.by_path(path)}
            before = self.plain_counts()
            await model.accept(stream)
            after = self.plain_counts()
            assert not [path for path in known if before.get(path) != after.get(path)], (
                "it was registered under logdrive/1"
            )

        self.listener = await self.world.network.host("reader", identity="dns:reader").listen(
            "0.0.0.0", 5044, tls_with(*alpn), accept
        )
        self.world.network.cut("agent")

    def acknowledge(self, yes: bool) -> None:
        """Let the plain receivers acknowledge from the next connection on, or not: within a
        connection, no window is left out.
        """
        self.v1.acknowledge = self.v2.acknowledge = yes
        self.world.network.cut("agent")

    def plain_counts(self) -> dict[str, int]:
        """Return how many events of each file came as plain Lumberjack."""
        return {
            path: len(self.v2.events.get(path, ())) + len(self.v1.events.get(path, ()))
            for path in self.files
        }

    async def step(self) -> None:
        """Do one thing."""
        match self.random.choice(
            ("write", "write", "write", "speak", "cut", "acknowledge", "remove", "kill", "wait")
        ):
            case "write":
                path = f"/logs/{self.random.randrange(6)}.log"
                if path not in self.gone:
                    kinds = self.random.choice((LINES, LINES[:1], LINES[3:6]))
                    text = b"".join(self.random.choices(kinds, k=self.random.choice((1, 5, 900))))
                    text = (
                        text if path in self.files else b"first of " + path.encode() + b"\n" + text
                    )
                    self.files[path] = self.files.get(path, b"") + text
                    self.world.write(text, path)
            case "speak":
                await self.speak(self.random.choice(SPOKEN))
            case "cut":
                self.world.network.cut("agent")
            case "acknowledge":
                self.acknowledge(self.random.random() < 0.5)
            case "remove" if left := sorted(self.files.keys() - self.gone):
                self.acknowledge(self.random.random() < 0.3)
                # so that it was seen: a file that was never opened has no source
                await self.world.clock.sleep(10)
                self.world.disk.remove(path := self.random.choice(left))
                self.gone.add(path)
                await self.world.clock.sleep(10)
                await self.speak(self.random.choice(SPOKEN))
            case "kill" if not self.gone:  # it would take what only its memory had along
                await self.world.kill()
                self.world.start()
        await self.world.clock.sleep(self.random.choice((0.01, 0.3, 3.0, 30.0)))

    def check(self) -> None:
        """Compare all that came with the files."""
        for path, whole in self.files.items():
            came = [
                (int(event["offset"]), file_bytes_of(event))
                for event in self.v1.events.get(path, [])
            ]
            came += [_of(event) for event in self.v2.events.get(path, [])]
            for stored in self.native.by_path(path):
                came += [(start, data) for start, _, data in stored.data]
            covered = bytearray(len(whole))
            for start, data in came:
                assert whole[start : start + len(data)] == data, f"{path} at {start}"
                covered[start : start + len(data)] = b"\1" * len(data)
            assert covered.count(0) == 0, (
                f"{path} lacks {covered.count(0)} bytes from {covered.index(0)} on"
            )
            native = sorted(
                (start, end)
                for stored in self.native.by_path(path)
                for start, end, _ in stored.data
            )
            assert all(one[1] <= other[0] for one, other in pairwise(native)), (
                "doubled under logdrive/1"
            )


def _of(event: dict[str, object]) -> tuple[int, bytes]:
    start, _, data, _ = bytes_of(orjson.dumps(event))
    return start, data


@pytest.mark.parametrize("seed", range(12))
def test_every_byte_arrives_in_every_sequence_of_dialects(seed: int) -> None:
    async def main() -> None:
        history = History(seed)
        await history.speak(history.random.choice(SPOKEN))
        history.world.start()
        for _ in range(40):
            await history.step()
        history.acknowledge(True)
        await history.speak(("logdrive/1",))
        await history.world.clock.sleep(200)
        await history.world.settle()
        history.check()
        assert history.v1.faults == []
        assert history.world.network.failures == []
        assert history.files
        assert sum(count > 0 for count in history.connections.values()) >= 2
        await history.world.stop()

    run(main())
