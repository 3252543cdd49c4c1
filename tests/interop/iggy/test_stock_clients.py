"""Iggy's own clients of three revisions, unchanged, against our store; iggy-py against the real
server, too, which shows that it is right what these tests expect.
"""

import time
from collections.abc import Callable

import pytest

from tests.interop.iggy.clients import (
    ALL,
    IGGY_PY,
    ClientError,
    Driven,
    StockClient,
    logged_in,
)
from tests.interop.iggy.conftest import named

pytestmark = pytest.mark.process

Address = Callable[[str], str]
PAIRS = [*(("ours", client) for client in ALL), ("real", IGGY_PY)]
on_each_server = pytest.mark.parametrize(("server", "client"), PAIRS, ids=named)
with_each_client = pytest.mark.parametrize("client", ALL, ids=named)


@on_each_server
def test_what_is_sent_is_polled(
    address_of: Address, server: str, client: StockClient, stream: str
) -> None:
    with logged_in(client, address_of(server)) as driven:
        driven.call("ping")
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 2)
        driven.send(stream, "events", 0, [b"one", b"two"])
        driven.send(stream, "events", 1, [b"other"])
        driven.send(stream, "events", 0, [b"three"])

        found = driven.poll(stream, "events", 0, "First")
        assert [each["payload"] for each in found] == [b"one", b"two", b"three"]
        assert [each["offset"] for each in found] == [0, 1, 2]
        assert len({each["id"] for each in found} - {0}) == 3
        assert driven.poll(stream, "events", 1, "First")[0]["payload"] == b"other"
        last = driven.poll(stream, "events", 0, "Last", count=2)
        assert [each["payload"] for each in last] == [b"two", b"three"]
        (one,) = driven.poll(stream, "events", 0, "Offset", value=1, count=1)
        assert (one["payload"], one["offset"]) == (b"two", 1)
        assert driven.poll(stream, "events", 0, "Offset", value=3) == []


@on_each_server
def test_a_message_has_the_time_of_its_append_and_is_found_by_it(
    address_of: Address, server: str, client: StockClient, stream: str
) -> None:
    with logged_in(client, address_of(server)) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1)
        before = time.time_ns() // 1000
        driven.send(stream, "events", 0, [b"early"])
        time.sleep(0.05)
        driven.send(stream, "events", 0, [b"late"])
        after = time.time_ns() // 1000 + 1000
        early, late = driven.poll(stream, "events", 0, "First")
        assert before <= early["timestamp"] < late["timestamp"] <= after
        found = driven.poll(stream, "events", 0, "Timestamp", value=late["timestamp"] - 10_000)
        assert [each["payload"] for each in found] == [b"late"]


@on_each_server
def test_streams_and_topics_tell_what_is_in_them(
    address_of: Address, server: str, client: StockClient, stream: str
) -> None:
    with logged_in(client, address_of(server)) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 3)
        driven.send(stream, "events", 2, [b"x", b"y"])
        shown = driven.call("stream", stream)
        assert (shown["name"], shown["topics_count"], shown["messages_count"]) == (stream, 1, 2)
        by_number = driven.call("stream", shown["id"])
        assert by_number["name"] == stream
        topic = driven.call("topic", stream, "events")
        assert (topic["name"], topic["messages_count"]) == ("events", 2)
        assert driven.call("topic", shown["id"], topic["id"])["name"] == "events"


@on_each_server
def test_a_wrong_password_is_refused(address_of: Address, server: str, client: StockClient) -> None:
    for user, password in (("iggy", "wrong"), ("nobody", "iggy")):
        with Driven(client, address_of(server)) as driven:
            driven.call("connect")
            with pytest.raises(ClientError):
                driven.call("login", user, password)
    with logged_in(client, address_of(server)) as driven:
        driven.call("ping")


@on_each_server
def test_nobody_gets_in_without_a_login(
    address_of: Address, server: str, client: StockClient, stream: str
) -> None:
    with Driven(client, address_of(server)) as driven:
        driven.call("connect")
        with pytest.raises(ClientError):
            driven.call("create_stream", stream)


@on_each_server
def test_what_is_missing_is_told(
    address_of: Address, server: str, client: StockClient, stream: str
) -> None:
    with logged_in(client, address_of(server)) as driven:
        assert driven.call("stream", stream) is None
        with pytest.raises(ClientError):
            driven.call("create_topic", stream, "events", 1)
        driven.call("create_stream", stream)
        assert driven.call("topic", stream, "events") is None
        with pytest.raises(ClientError):
            driven.send(stream, "events", 0, [b"x"])
        driven.call("create_topic", stream, "events", 1)
        with pytest.raises(ClientError):
            driven.send(stream, "events", 7, [b"x"])
        with pytest.raises(ClientError):
            driven.poll(stream, "events", 7, "First")
        with pytest.raises(ClientError):
            driven.call("create_stream", stream)
        with pytest.raises(ClientError):
            driven.call("create_topic", stream, "events", 1)
        driven.send(stream, "events", 0, [b"it goes on"])
        assert driven.payloads(stream, "events") == [b"it goes on"]


@on_each_server
def test_a_consumer_goes_on_where_it_committed(
    address_of: Address, server: str, client: StockClient, stream: str
) -> None:
    address = address_of(server)
    with logged_in(client, address) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1)
        driven.send(stream, "events", 0, [b"%d" % n for n in range(10)])
        first = driven.poll(stream, "events", 0, "Next", count=4, commit=True)
        again = driven.poll(stream, "events", 0, "Next", count=2)
    with logged_in(client, address) as other:
        rest = other.poll(stream, "events", 0, "Next", commit=True)
        assert other.poll(stream, "events", 0, "Next", commit=True) == []
    assert [each["offset"] for each in first] == [0, 1, 2, 3]
    assert [each["offset"] for each in again] == [4, 5]
    assert [each["offset"] for each in rest] == [4, 5, 6, 7, 8, 9]


@on_each_server
def test_many_batches_stay_whole_and_in_order(
    address_of: Address, server: str, client: StockClient, stream: str
) -> None:
    with logged_in(client, address_of(server)) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1)
        sent = [b"%06d" % n + b"x" * (n % 700) for n in range(3000)]
        for at in range(0, len(sent), 250):
            driven.begin(
                "send",
                stream,
                "events",
                client.first,
                [payload.hex() for payload in sent[at : at + 250]],
            )
        for _ in range(0, len(sent), 250):
            driven.result_of("send")
        assert driven.payloads(stream, "events") == sent


@with_each_client
def test_a_message_of_a_megabyte_arrives(
    address_of: Address, client: StockClient, stream: str
) -> None:
    with logged_in(client, address_of("ours")) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1)
        large = bytes(range(32, 127)) * 11_000
        driven.send(stream, "events", 0, [large, b"small"])
        assert driven.payloads(stream, "events") == [large, b"small"]


def test_clients_of_all_revisions_share_one_topic(address_of: Address, stream: str) -> None:
    address = address_of("ours")
    with logged_in(IGGY_PY, address) as first:
        first.call("create_stream", stream)
        first.call("create_topic", stream, "events", 2)
    for client in ALL:
        with logged_in(client, address) as driven:
            driven.send(stream, "events", 1, [str(client).encode()])
    expected = [str(client).encode() for client in ALL]
    ids = set()
    for client in ALL:
        with logged_in(client, address) as driven:
            assert driven.payloads(stream, "events", 1) == expected
            assert driven.payloads(stream, "events", 0) == []
            found = driven.poll(stream, "events", 1, "First")
            ids.add(tuple(each["id"] for each in found))
    assert len(ids) == 1  # a message has the same id for all of them
