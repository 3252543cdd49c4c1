"""`logdrive.wire.s2.info`: requests and answers about basins and streams."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2.configs import BasinConfig, Cipher, RetentionPeriod, S2StreamConfig
from logdrive.wire.s2.info import (
    BasinInfo,
    CreateBasin,
    CreateStream,
    EnsureBasin,
    StreamInfo,
    encode_basins,
    encode_config,
    encode_info,
    encode_streams,
    parse_basin,
    parse_basins,
    parse_create_basin,
    parse_create_stream,
    parse_ensure_basin,
    parse_stream,
    parse_streams,
)
from tests.logdrive.wire.s2.samples import refusal

BAD_JSON = (400, "bad_json")

times = st.integers(0, 4 * 10**12)
basins = st.builds(
    BasinInfo, st.text(max_size=9), times, st.none() | st.text(max_size=9), st.none() | times
)
streams = st.builds(
    StreamInfo,
    st.text(max_size=9),
    times,
    st.none() | times,
    st.none() | st.sampled_from(Cipher),
)


@given(basins, streams)
def test_infos_are_read_as_they_were_written(basin: BasinInfo, stream: StreamInfo) -> None:
    assert parse_basin(encode_info(basin)) == basin
    assert parse_stream(encode_info(stream)) == stream


@given(st.lists(basins, max_size=3), st.lists(streams, max_size=3), st.booleans())
def test_lists_are_read_as_they_were_written(
    some_basins: list[BasinInfo], some_streams: list[StreamInfo], more: bool
) -> None:
    assert parse_basins(encode_basins(some_basins, has_more=more)) == (some_basins, more)
    assert parse_streams(encode_streams(some_streams, has_more=more)) == (some_streams, more)


def test_the_shapes_are_those_of_the_protocol() -> None:
    assert json.loads(encode_info(BasinInfo("b", 1_700_000_000_123))) == {
        "name": "b",
        "location": None,
        "created_at": "2023-11-14T22:13:20.123Z",
        "deleted_at": None,
        "state": "active",
    }
    assert json.loads(encode_info(StreamInfo("s", 0, 1000, Cipher.AEGIS_256))) == {
        "name": "s",
        "created_at": "1970-01-01T00:00:00.000Z",
        "deleted_at": "1970-01-01T00:00:01.000Z",
        "cipher": "aegis-256",
    }
    assert json.loads(encode_info(BasinInfo("b", 0, "here", 1)))["state"] == "deleting"
    assert encode_config(S2StreamConfig()) == b"{}"


def test_times_of_other_writers_are_read() -> None:
    for text in ("2023-11-14T22:13:20.123456789Z", "2023-11-15T00:13:20.123+02:00"):
        data = json.dumps({"name": "b", "created_at": text}).encode()
        assert parse_basin(data).created_ms == 1_700_000_000_123


def test_requests_may_come_without_a_configuration() -> None:
    name = "basin-name"
    assert parse_create_basin(b'{"basin":"basin-name"}') == CreateBasin(name, BasinConfig())
    assert parse_create_basin(
        b'{"basin":"basin-name","config":null,"location":"here"}'
    ) == CreateBasin(name, BasinConfig(), "here")
    assert parse_ensure_basin(b"") == parse_ensure_basin(b"{}") == EnsureBasin(BasinConfig())
    assert parse_create_stream(b'{"stream":"a/b"}') == CreateStream("a/b", S2StreamConfig())


def test_requests_may_come_with_a_configuration() -> None:
    stream = b'{"retention_policy":{"age":5}}'
    expected = S2StreamConfig(retention=RetentionPeriod(5))
    assert parse_create_stream(b'{"stream":"s","config":%b}' % stream).config == expected
    basin = b'{"default_stream_config":%b,"create_stream_on_read":true}' % stream
    config = BasinConfig(expected, create_stream_on_read=True)
    assert parse_create_basin(b'{"basin":"basin-name","config":%b}' % basin).config == config
    assert parse_ensure_basin(b'{"config":%b}' % basin).config == config


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"basin":"Bad","stream":""}', b'{"basin":1,"stream":1}']
)
def test_other_requests_are_bad_json(data: bytes) -> None:
    assert refusal(parse_create_basin, data) == BAD_JSON
    assert refusal(parse_create_stream, data) == BAD_JSON


def test_an_age_of_zero_is_not_allowed() -> None:
    data = b'{"stream":"s","config":{"retention_policy":{"age":0}}}'
    assert refusal(parse_create_stream, data) == (422, "invalid")
