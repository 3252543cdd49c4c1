"""The benchmarks' own inputs: what they promise about themselves."""

from pathlib import Path

import orjson

from bench.frames import FORMS, frame_file
from bench.lines import lines, log_file
from logdrive.model.batch import HEADER_PREFIX
from logdrive.wire.lumberjack.frames import EVENT


def test_lines_are_188_bytes_on_average_and_always_the_same() -> None:
    text = b"".join(lines(20_000))
    assert text.count(b"\n") == 20_000
    assert abs(len(text) / 20_000 - 188) < 1
    assert text == b"".join(lines(20_000))


def test_a_longer_log_begins_as_a_shorter_one() -> None:
    assert b"".join(lines(20_000)).startswith(b"".join(lines(10_000)))


def test_every_form_of_frames_holds_every_byte_of_the_log(tmp_path: Path) -> None:
    log = log_file(tmp_path, 3_000)
    for form in FORMS:
        data, at, sequence, messages = frame_file(log, form).read_bytes(), 0, 0, []
        while at < len(data):
            kind, number, size = EVENT.unpack_from(data, at)
            sequence += 1
            assert (kind, number) == (b"2J", sequence)
            messages.append(orjson.loads(data[at + EVENT.size : at + EVENT.size + size])["message"])
            at += EVENT.size + size
        end = "" if form == "block_frames" else "\n"
        assert "".join(message + end for message in messages).encode() == log.read_bytes()


def test_frames_of_one_line_have_the_sizes_that_they_are_named_for(tmp_path: Path) -> None:
    log = log_file(tmp_path, 3_000)
    sizes = {form: frame_file(log, form).stat().st_size / 3_000 for form in FORMS}
    assert abs(sizes["json_frames"] - 363) < 5
    assert abs(sizes["full_frames"] - 534) < 5
    assert sizes["block_frames"] < 200
    assert HEADER_PREFIX not in log.read_bytes()
