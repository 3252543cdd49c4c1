"""Addresses of hosts, streams of S2 and topics of Iggy: how they are written, what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.address import (
    IGGY_PORT,
    S2_PORT,
    IggyAddress,
    S2Address,
    host_port,
    host_port_text,
    peer_address,
    sink_address,
)
from logdrive.wire.s2.names import is_basin, is_stream

BASIN = "my-basin"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("h", ("h", 5044)),
        ("h:1", ("h", 1)),
        ("10.0.0.1:1", ("10.0.0.1", 1)),
        ("[::1]:1", ("::1", 1)),
        ("my_host.example", ("my_host.example", 5044)),
        ("zürich:1", ("zürich", 1)),
    ],
)
def test_a_host_and_its_port(text: str, parts: tuple[str, int]) -> None:
    assert host_port(text) == parts


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\t",
        "a b",
        " a:1",
        ":secret@a:1",
        "a\n:1",
        "a\0:1",
        "a,b:1",
        "a?b",
        "a#b:1",
        "a/b",
        ":1",
        "a:b",
        "[::1",
        "[x]:1",
    ],
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        host_port(text)


def test_what_is_connected_to_has_another_port_than_0() -> None:
    assert host_port("h:0") == ("h", 0)
    assert peer_address("h") == ("h", 5044)
    with pytest.raises(ValueError, match="'h:0' has port 0, at which nothing listens"):
        peer_address("h:0")
    for uri in (f"s2://h:0/{BASIN}/events", "iggy://h:0/logs/events", "pravega://h:0/logs/events"):
        with pytest.raises(ValueError, match="port"):
            sink_address(uri)


def test_a_host_and_its_port_are_written_as_they_are_read() -> None:
    for host in ("logs.example.com", "127.0.0.1", "::1", "::"):
        assert host_port(host_port_text(host, 5044)) == (host, 5044)


def test_the_port_may_be_left_out_and_so_may_the_host() -> None:
    assert sink_address(f"s2://h/{BASIN}/a") == S2Address("h", S2_PORT, BASIN, "a")
    assert sink_address(f"s2://[::1]:9/{BASIN}/a/b%20c") == S2Address("::1", 9, BASIN, "a/b c")
    assert sink_address(f"s2:///{BASIN}/a") == S2Address("", 0, BASIN, "a")


@given(stream=st.text(min_size=1, max_size=40), host=st.sampled_from(["", "h", "::1"]))
def test_any_stream_is_written_and_read_back(stream: str, host: str) -> None:
    if not is_stream(stream) or any("\ud800" <= c <= "\udfff" for c in stream):
        return
    address = S2Address(host, 8080 if host else 0, BASIN, stream)
    assert sink_address(address.uri) == address


@given(basin=st.text("abz09-A._", max_size=50))
def test_a_basin_is_one_for_an_address_if_it_is_one_for_the_protocol(basin: str) -> None:
    try:
        sink_address(f"s2://h/{basin}/a")
    except ValueError:
        assert not is_basin(basin)
    else:
        assert is_basin(basin)


@pytest.mark.parametrize(
    "uri",
    [
        "s2://h/short/a",
        f"s2://h/{BASIN}",
        f"s2://h/{BASIN}/",
        f"s2://h/{BASIN}/..",
        f"s2://h/{BASIN}/%00",
        f"s2://h/{BASIN}/%ff",
        f"s2://h/{BASIN}/a?b",
        f"s2://h/{BASIN}/a#b",
        f"s2://h:99999/{BASIN}/a",
        f"s2://user@h/{BASIN}/a",
    ],
)
def test_what_is_no_address_is_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="s2://"):
        sink_address(uri)


def test_a_topic_of_iggy_has_an_address_that_does_not_show_its_password() -> None:
    given = sink_address("iggy://me:p%40ss%3A%2F@h/my%20logs/events")
    assert given == IggyAddress("h", IGGY_PORT, "my logs", "events", "me", "p@ss:/")
    assert given.uri == f"iggy://h:{IGGY_PORT}/my%20logs/events"
    assert "p@ss" not in repr(given)
    assert sink_address("iggy://[::1]:9/a/b") == IggyAddress("::1", 9, "a", "b")


@given(name=st.text(min_size=1, max_size=40))
def test_any_name_of_iggy_is_written_and_read_back(name: str) -> None:
    if "/" in name or not name.isprintable():
        return
    address = IggyAddress("h", IGGY_PORT, name, name)
    assert sink_address(address.uri) == address


@pytest.mark.parametrize(
    "uri",
    [
        "iggy://h/a",
        "iggy://h/a/",
        "iggy://h//b",
        "iggy://h/a/b/c",
        "iggy://h/a/b?c",
        "iggy://h/a/%2F",
        "iggy://h/a/%ff",
        "iggy://h/a/" + 251 * "b",
        "iggy:///a/b",
        "iggy://user:secret@h/a",
        "iggy://user:secret@/a/b",
        "iggy://user:secret@h:99999/a/b",
        "iggy://secret@h/a/b",
        "iggy://user:secret#1@h/a/b",
        "iggy://user:secret\u2100@h/a/b",
        "iggy://user:secret/1@h/a/b",
        "iggy://secret:@h/a/b",
    ],
)
def test_what_is_no_topic_of_iggy_is_refused_without_showing_a_password(uri: str) -> None:
    with pytest.raises(ValueError, match="iggy://") as refused:
        sink_address(uri)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "uri",
    [
        "igy://me:secret@host:8090/logs/events",
        "pravega://me:secret@host:6000/logs/events",
        "pravega://me:secret@host:6000/logs",
        "s2://me:secret@host/basin-one/events",
        "file://me:secret@host/store#logs/events",
    ],
)
def test_a_password_in_an_address_of_another_kind_is_not_shown(uri: str) -> None:
    with pytest.raises(ValueError, match="host") as raised:
        sink_address(uri)
    assert "secret" not in str(raised.value)
