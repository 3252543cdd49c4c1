"""The streams that the benchmarks send: whole, in order, and as a reader takes them."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bench.codec import block_stream, pack_stream, runs_in
from bench.lines import log_file
from logdrive.model.numbers import number_of, position_of
from logdrive.packs.contents import TextContent, open_run
from logdrive.packs.pack import PackCodec
from logdrive.wire.lumberjack.run_reader import RunReceived


def _text_of(given: RunReceived) -> bytes:
    content = open_run(
        given.payloads[0],
        previous=position_of(given.run.previous),
        position=position_of(given.run.number),
        events=given.run.events,
        skipped=given.run.skipped,
    )
    assert isinstance(content, TextContent)
    return content.text


@pytest.mark.parametrize("codec", PackCodec)
def test_packs_hold_every_byte_of_the_log(codec: PackCodec, tmp_path: Path) -> None:
    data = log_file(tmp_path, 12_000).read_bytes()
    runs = runs_in(b"".join(pack_stream(data, codec)))
    assert len(runs) > 1
    assert b"".join(map(_text_of, runs)) == data


@pytest.mark.parametrize("stream", [block_stream, partial(pack_stream, codec=PackCodec.ZSTD)])
def test_each_run_goes_on_where_the_one_before_it_ended(
    stream: Callable[[bytes], Iterator[bytes]], tmp_path: Path
) -> None:
    data = log_file(tmp_path, 12_000).read_bytes()
    runs = [given.run for given in runs_in(b"".join(stream(data)))]
    assert [run.previous for run in runs] == [0, *(run.number for run in runs[:-1])]
    assert runs[-1].number == number_of(len(data), data[-256:])
    assert sum(run.events for run in runs) == 12_000
