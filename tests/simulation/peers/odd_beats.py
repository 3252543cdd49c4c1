"""Foreign peers unlike Beats: version 1, several windows in flight, unfilled windows, lies."""

from collections import deque
from random import Random
from typing import Final

import orjson

from logdrive.errors import LogdriveError
from logdrive.host.transport import ByteStream
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    VERSION_1,
    AckFrame,
    EnvelopeFrame,
    KeyValueFrame,
    WindowFrame,
    json_frames,
)
from logdrive.wire.lumberjack.reader import FrameReader
from tests.simulation.peers.beats import Beat
from tests.support.memory.transport import MemoryNetwork

_WINDOW_EVENTS = 50  # limit on the events of a window
_WINDOWS = 3  # limit on the windows in flight
_FEW = 5  # events that a lazy peer announces and does not send


class OldBeat(Beat):
    """Speaks version 1: pairs of keys and values, no JSON, no keepalives."""

    def event(self, number: int) -> bytes:
        """Return event *number* as it will be stored."""
        return self.mark + b',"number":"%d","message":"something happened"}' % number

    def window(self, events: list[bytes]) -> list[bytes]:
        """Return one window as it travels."""
        pairs = [tuple(orjson.loads(event).items()) for event in events]
        frames = [KeyValueFrame(number, pair).encode() for number, pair in enumerate(pairs, 1)]
        return [WindowFrame(len(events)).encode(VERSION_1), *frames]


class HastyBeat(Beat):
    """Sends several windows before it waits for an acknowledgement."""

    async def exchange(self, stream: ByteStream, reader: FrameReader) -> None:
        """Send a few windows, then take their acknowledgements in order."""
        events = list(self.waiting)
        windows = deque[int]()
        for first in range(0, min(len(events), _WINDOWS * _WINDOW_EVENTS), _WINDOW_EVENTS):
            window = events[first : first + _WINDOW_EVENTS]
            await stream.write(self.window(window))
            windows.append(len(window))
        done = 0
        while windows:
            for frame in reader.receive_data(await self.heard(stream)):
                if not isinstance(frame, AckFrame):
                    continue
                self.settle(frame.sequence - done)
                done = max(done, frame.sequence)
                if done == windows[0]:  # acknowledgements count anew in the next window
                    windows.popleft()
                    done = 0


class LazyBeat(Beat):
    """Announces more events than it sends, and counts partial acknowledgements."""

    def window(self, events: list[bytes]) -> list[bytes]:
        """Return a window that is never filled."""
        return [WindowFrame(len(events) + _FEW).encode(), *json_frames(1, events)]


class LyingBeat(Beat):
    """Breaks the protocol, each time in another way, and waits for no answer.

    Its events may be stored or not.
    """

    def __init__(self, name: str, hosts: list[str], network: MemoryNetwork) -> None:
        super().__init__(name, hosts, network)
        self._pick = Random(name)

    async def serve(self, host: str) -> None:
        """Send one lie on one connection to *host*."""
        transport = self.network.host(self.name, f"cn:{self.name}")
        stream = await transport.connect(host, 5044, self.tls)
        events = [self.waiting.popleft() for _ in range(min(len(self.waiting), _WINDOW_EVENTS))]
        try:
            await stream.write(self._lie(events))
        except LogdriveError:
            return  # the receiver has noticed and disconnected
        finally:
            await stream.close()

    def _lie(self, events: list[bytes]) -> list[bytes]:
        whole = b"".join(json_frames(1, events))
        noise = self._pick.randbytes(self._pick.randint(1, 300))
        lies = (
            [WindowFrame(len(events)).encode(), whole[: self._pick.randint(0, len(whole))]],
            [WindowFrame(1).encode(), whole],
            [WindowFrame(len(events)).encode(), *json_frames(7, events)],
            [whole],
            [noise],
            [WindowFrame(len(events)).encode(), whole, b"2Z", noise],
            [WindowFrame(len(events)).encode(), EnvelopeFrame(noise).encode()],
            [
                WindowFrame(len(events)).encode(),
                EnvelopeFrame(pack(whole, "zlib", 1)[:-3]).encode(),
            ],
            [b"2J", (1).to_bytes(4, "big"), (2**32 - 1).to_bytes(4, "big"), noise],
        )
        return self._pick.choice(lies)


ODD: Final[dict[str, type[Beat]]] = {
    "old": OldBeat,
    "hasty": HastyBeat,
    "lazy": LazyBeat,
    "lying": LyingBeat,
}
"""Kinds of odd peers, by the beginning of their names."""


def beat_of(name: str, hosts: list[str], network: MemoryNetwork, *, tls: bool) -> Beat:
    """Return the foreign peer of that *name*."""
    beat = ODD.get(name.rstrip("0123456789"), Beat)(name, hosts, network)
    if not tls:
        beat.tls = None
    return beat
