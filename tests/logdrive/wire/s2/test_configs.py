"""`logdrive.wire.s2.configs`: defaults, patches and JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.s2.configs import (
    BasinConfig,
    BasinPatch,
    Cipher,
    ResolvedStreamConfig,
    RetentionPeriod,
    S2StreamConfig,
    TimestampingMode,
    parse_basin_config,
    parse_basin_patch,
    parse_stream_config,
    parse_stream_patch,
)
from logdrive.wire.s2.errors import bad_header
from tests.logdrive.wire.s2.samples import refusal

BAD_JSON = (400, "bad_json")
INVALID = (422, "invalid")

seconds = st.integers(0, 2**64 - 1)
retentions = st.builds(RetentionPeriod, st.none() | st.integers(1, 2**64 - 1))
stream_configs = st.builds(
    S2StreamConfig,
    st.none() | st.text(max_size=9),
    st.none() | retentions,
    st.none() | st.sampled_from(TimestampingMode),
    st.none() | st.booleans(),
    st.none() | seconds,
)
basin_configs = st.builds(
    BasinConfig,
    stream_configs,
    st.none() | st.sampled_from(Cipher),
    st.booleans(),
    st.booleans(),
)

ALL_GIVEN = S2StreamConfig("standard", RetentionPeriod(None), TimestampingMode.ARRIVAL, True, 60)
ALL_JSON = {
    "storage_class": "standard",
    "retention_policy": {"infinite": {}},
    "timestamping": {"mode": "arrival", "uncapped": True},
    "delete_on_empty": {"min_age_secs": 60},
}


@given(stream_configs)
def test_a_streams_configuration_is_read_as_it_was_written(config: S2StreamConfig) -> None:
    data = json.dumps(config.document())
    assert parse_stream_config(data.encode()) == parse_stream_config(data, bad_header) == config


@given(basin_configs)
def test_a_basins_configuration_is_read_as_it_was_written(config: BasinConfig) -> None:
    assert parse_basin_config(json.dumps(config.document()).encode()) == config


def test_the_shape_is_that_of_the_protocol() -> None:
    assert ALL_GIVEN.document() == ALL_JSON
    assert BasinConfig().document() == {
        "default_stream_config": None,
        "stream_cipher": None,
        "create_stream_on_append": False,
        "create_stream_on_read": False,
    }
    assert S2StreamConfig().resolved().document() == {
        "storage_class": "express",
        "retention_policy": {"age": 604800},
        "timestamping": {"mode": "client-prefer", "uncapped": False},
        "delete_on_empty": {"min_age_secs": 0},
    }


@given(stream_configs, stream_configs)
def test_a_stream_goes_before_its_basin_and_that_before_the_system(
    stream: S2StreamConfig, basin: S2StreamConfig
) -> None:
    resolved, system = stream.resolved(basin), ResolvedStreamConfig()
    for name in S2StreamConfig.__struct_fields__:
        layers = (getattr(stream, name), getattr(basin, name), getattr(system, name))
        assert getattr(resolved, name) == next(value for value in layers if value is not None)
    assert resolved.given().resolved() == resolved
    assert stream.resolved() == stream.resolved(S2StreamConfig())


@given(stream_configs, stream_configs)
def test_a_patch_changes_what_it_names(before: S2StreamConfig, changes: S2StreamConfig) -> None:
    after = before.patched(parse_stream_patch(json.dumps(changes.document()).encode()))
    for name in S2StreamConfig.__struct_fields__:
        new = getattr(changes, name)
        assert getattr(after, name) == (getattr(before, name) if new is None else new)


def test_null_in_a_patch_sets_back() -> None:
    nulls = json.dumps(dict.fromkeys(ALL_JSON))
    assert ALL_GIVEN.patched(parse_stream_patch(nulls.encode())) == S2StreamConfig()
    assert ALL_GIVEN.patched(parse_stream_patch(b"{}")) == ALL_GIVEN
    inner = b'{"timestamping":{"mode":null},"delete_on_empty":{"min_age_secs":null}}'
    assert ALL_GIVEN.patched(parse_stream_patch(inner)) == S2StreamConfig(
        "standard", RetentionPeriod(None), None, True, None
    )


def test_a_patch_of_a_basin_goes_into_the_defaults_of_its_streams() -> None:
    before = BasinConfig(ALL_GIVEN, Cipher.AES_256_GCM, True, True)

    def patched(patch: bytes) -> BasinConfig:
        return before.patched(parse_basin_patch(patch))

    assert patched(b"{}") == before
    assert parse_basin_patch(b"{}") == BasinPatch()
    assert patched(b'{"default_stream_config":null}').default_stream_config == S2StreamConfig()
    assert patched(b'{"default_stream_config":{}}') == before
    inner = patched(b'{"default_stream_config":{"timestamping":{"uncapped":false}}}')
    assert inner.default_stream_config == S2StreamConfig(
        "standard", RetentionPeriod(None), TimestampingMode.ARRIVAL, False, 60
    )
    rest = b'{"stream_cipher":null,"create_stream_on_append":null,"create_stream_on_read":false}'
    assert patched(rest) == BasinConfig(ALL_GIVEN)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"[]",
        b'{"storage_class":1}',
        b'{"retention_policy":{}}',
        b'{"retention_policy":{"age":1,"infinite":{}}}',
        b'{"retention_policy":{"age":-1}}',
        b'{"retention_policy":{"age":18446744073709551616}}',
        b'{"retention_policy":{"age":null}}',
        b'{"retention_policy":"infinite"}',
        b'{"timestamping":{"mode":"other"}}',
        b'{"timestamping":{"uncapped":1}}',
        b'{"delete_on_empty":{"min_age_secs":-1}}',
        b'{"x":' + b"[" * 100_000,
    ],
)
def test_other_shapes_are_bad_json_and_in_a_header_a_bad_header(data: bytes) -> None:
    assert refusal(parse_stream_config, data) == BAD_JSON
    assert refusal(parse_stream_patch, data) == BAD_JSON
    assert refusal(parse_stream_config, data, bad_header) == (400, "bad_header")
    within = b'{"default_stream_config":%b}' % data
    assert refusal(parse_basin_config, within) == BAD_JSON
    assert refusal(parse_basin_patch, within) == BAD_JSON


def test_an_age_of_zero_is_not_allowed() -> None:
    data = b'{"retention_policy":{"age":0}}'
    assert refusal(parse_stream_config, data) == INVALID
    assert refusal(parse_stream_patch, data) == INVALID
    assert refusal(parse_stream_config, data, bad_header) == (400, "bad_header")


def test_an_unknown_cipher_is_refused() -> None:
    assert refusal(parse_basin_config, b'{"stream_cipher":"rot13"}') == BAD_JSON
