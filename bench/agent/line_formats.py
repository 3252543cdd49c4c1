"""Lines of each format through the agent's encoder in one process: the least that an event costs.

`line_of` makes the lines, `format_cost` measures. By itself it prints all costs, or, of files, the
share of lines that each format reads:

    python -m bench.agent.line_formats
    python -m bench.agent.line_formats FILE...
"""

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, get_args

import orjson

from agent.config.events import EventsTable
from agent.config.formats import FormatName, FormatTable
from agent.events.cutter import LINES
from agent.events.encoder import EventEncoder, EventOutput
from agent.events.event import Event
from agent.events.formats.auto import FIRST_BYTES
from agent.events.formats.make import READERS, make_format
from agent.events.forms import EventForm, FullForm, LeanForm, PairForm
from agent.events.source_events import SourceEvents
from logdrive.packs.pack import PackCodec
from logdrive.records.chunk import CHUNK_BYTES, TextChunk
from logdrive.records.run_pack import Packing, encode_parts

_PACKING: Final = Packing(PackCodec.DEFLATE, 1)
_COLUMNS: Final = ["time", "level", "logger", "message", "order", "total", "user", "ok"]
_DIALECTS: Final[Mapping[str, Callable[[], EventOutput]]] = {
    "logdrive/1": lambda: _output(LeanForm(), packed=True),
    "lumberjack/2": lambda: _output(FullForm({"host": {"name": "h"}}, "/a.log", "0f" * 16)),
    "lumberjack/1": lambda: _output(PairForm([("host", "h"), ("file", "/a.log")])),
}


def _output(form: EventForm, *, packed: bool = False) -> EventOutput:
    if packed:
        return EventOutput(form, _PACKING, "pack", text=True)
    return EventOutput(form, None, "nothing")


def line_of(name: FormatName, number: int) -> str:
    """Return line *number* of the format *name*; its text and figures differ from line to line."""
    clock = f"{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}"
    text = f"order {number * 7919 % 100_003} of customer {number % 1009} placed in {number % 97} ms"
    match name:
        case "json" | "auto":
            order = {"id": number, "total": number % 997 / 8}
            values = {"time": f"2025-11-21T{clock}Z", "level": "info", "msg": text, "order": order}
            return orjson.dumps(values | {"logger": "shop.orders", "ok": True}).decode()
        case "logfmt" | "key_value":
            return (
                f'time=2025-11-21T{clock}Z level=info logger=shop.orders msg="{text}" id={number}'
            )
        case "csv":
            return f"2025-11-21T{clock}Z,info,shop.orders,{text},{number},{number % 997},u,true"
        case "syslog":
            return f"<30>Nov 21 {clock} web-{number % 8} shop[{number % 30_000}]: {text}"
        case "access":
            return (
                f"10.0.{number % 256}.7 - - [21/Nov/2025:{clock} +0000] "
                f'"GET /orders/{number}?page=2 HTTP/1.1" 200 {number % 65_536} '
                '"https://shop.example/cart" "Mozilla/5.0 (X11; Linux x86_64) Firefox/128.0"'
            )
        case "klog":
            return f"I1121 {clock}.{number % 1_000_000:06}   12345 server.go:123] {text}"
        case "cri":
            return f"2025-11-21T{clock}.{number % 10**9:09}Z stdout F {text}"
        case "docker":
            time_text = f"2025-11-21T{clock}.{number % 10**9:09}Z"
            return orjson.dumps(
                {"log": f"{text}\n", "stream": "stdout", "time": time_text}
            ).decode()


def lines_of(name: FormatName, size: int = CHUNK_BYTES) -> bytes:
    """Return as many lines of the format *name* as *size* bytes have room for."""
    parts, length, number = list[bytes](), 0, 0
    while True:
        line = line_of(name, number).encode() + b"\n"
        if length + len(line) > size:
            return b"".join(parts)
        parts.append(line)
        length, number = length + len(line), number + 1


def format_cost(name: FormatName, dialect: str = "logdrive/1", rounds: int = 7) -> float:
    """Return the CPU time that a line of the format *name* takes, in seconds: the least of some
    rounds, from the bytes of the file to the frames of *dialect*, packs compressed.
    """
    data = lines_of(name)
    table = FormatTable(type=name, columns=_COLUMNS if name == "csv" else [])
    least = float("inf")
    for _ in range(rounds):
        line_format = make_format(table, lambda: None, lambda _: None)
        events = SourceEvents(EventsTable(), line_format)
        encoder = EventEncoder(events, LINES, _DIALECTS[dialect]())
        before = time.process_time()
        runs = encoder.encode_chunk(TextChunk.from_whole_file(data), 0, 0)
        for run in runs:
            encode_parts(run.encode_frames(1))
        used = time.process_time() - before
        least = min(least, used / sum(run.events for run in runs))
    return least


def read_shares(data: bytes) -> dict[str, float]:
    """Return the share of the lines of *data* that each format reads, empty lines aside.

    That of `auto` has the name of the format that it found. csv and key_value are left out: they
    read lines of many kinds.
    """
    shares = dict[str, float]()
    first = LINES.cut_events(TextChunk.from_whole_file(data[:FIRST_BYTES]), FIRST_BYTES)

    def first_events() -> list[Event]:
        return first

    names: tuple[FormatName, ...] = (*READERS, "auto")
    for name in names:
        events = LINES.cut_events(TextChunk.from_whole_file(data), len(data) + 1)
        line_format = make_format(FormatTable(type=name), first_events, lambda _: None)
        lines = [event for event in events if event.message]
        line_format.parse_events(events)
        read = sum(bool(event.fields) and "error" not in event.fields for event in lines)
        shares[f"auto: {line_format.name}" if name == "auto" else name] = read / len(lines)
    return shares


def main() -> None:
    """Print the cost of each format in each dialect, or the shares of the files that are named."""
    for path in sys.argv[1:]:
        shares = read_shares(Path(path).read_bytes())
        told = ", ".join(f"{name} {share:.2%}" for name, share in shares.items() if share > 0)
        print(f"{Path(path).name:20} {told or 'none'}")
    if sys.argv[1:]:
        return
    print(f"{'µs/line':10}", *(f"{dialect:>13}" for dialect in _DIALECTS))
    for name in get_args(FormatName):
        costs = (format_cost(name, dialect) * 1e6 for dialect in _DIALECTS)
        print(f"{name:10}", *(f"{cost:13.2f}" for cost in costs))


if __name__ == "__main__":
    main()
