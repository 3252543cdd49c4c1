"""All that apache-iggy 0.9 can ask of a server besides messages, against our store."""

import struct
from collections.abc import Callable

import pytest

from tests.interop.iggy.clients import (
    CLASSIC,
    VSR,
    ClientError,
    Driven,
    logged_in,
)

pytestmark = pytest.mark.process

Address = Callable[[str], str]


def test_streams_are_listed_renamed_purged_and_deleted(address_of: Address, stream: str) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1)
        driven.send(stream, "events", 0, [b"x"])
        assert stream in {each["name"] for each in driven.call("ask", "get_streams")}
        driven.call("ask", "update_stream", stream, f"{stream}-new")
        assert driven.call("stream", stream) is None
        renamed = f"{stream}-new"
        assert driven.payloads(renamed, "events") == [b"x"]
        driven.call("ask", "purge_stream", renamed)
        assert driven.call("stream", renamed)["messages_count"] == 0
        driven.call("ask", "delete_stream", renamed)
        assert driven.call("stream", renamed) is None


def test_topics_are_listed_changed_purged_and_deleted(address_of: Address, stream: str) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "one", 1)
        driven.call("create_topic", stream, "two", 2)
        listed = driven.call("ask", "get_topics", stream)
        assert [(each["name"], each["partitions_count"]) for each in listed] == [
            ("one", 1),
            ("two", 2),
        ]
        driven.send(stream, "one", 0, [b"x", b"y"])
        driven.call("ask", "update_topic", stream, "one", "first")
        assert driven.payloads(stream, "first") == [b"x", b"y"]
        driven.call("ask", "purge_topic", stream, "first")
        assert driven.call("topic", stream, "first")["messages_count"] == 0
        driven.send(stream, "first", 0, [b"after"])
        assert [m["payload"] for m in driven.poll(stream, "first", 0, "First")] == [b"after"]
        driven.call("ask", "delete_topic", stream, "first")
        assert driven.call("topic", stream, "first") is None


def test_partitions_are_added_and_removed(address_of: Address, stream: str) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1)
        driven.call("ask", "create_partitions", stream, "events", 2)
        assert driven.call("topic", stream, "events")["partitions_count"] == 3
        driven.send(stream, "events", 2, [b"x"])
        assert driven.payloads(stream, "events", 2) == [b"x"]
        driven.call("ask", "delete_partitions", stream, "events", 1)
        assert driven.call("topic", stream, "events")["partitions_count"] == 2
        with pytest.raises(ClientError):
            driven.send(stream, "events", 2, [b"x"])


def test_a_send_tells_where_its_messages_are(address_of: Address, stream: str) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 2)
        told = [driven.call("send_as", stream, "events", ["61", "62"]) for _ in range(4)]
        assert sorted(each for (each,) in told) == [[0, 0], [0, 2], [1, 0], [1, 2]]
        keyed = [driven.call("send_as", stream, "events", ["63"], key="k") for _ in range(4)]
        assert len({partition for ((partition, _),) in keyed}) == 1


def test_headers_and_ids_are_kept(address_of: Address, stream: str) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1)
        headers = {"source": "app.log", "kind": "line"}
        driven.call("send_as", stream, "events", ["61"], headers=headers, chosen_id=12345)
        (found,) = driven.poll(stream, "events", 0, "First")
        assert found["id"] == 12345
        assert found["headers"] == headers


def test_options_are_described_and_kept(address_of: Address, stream: str) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        keys = {each["key"] for each in driven.call("ask", "describe_options", "topic")}
        assert {"message_expiry", "max_topic_size", "durability"} <= keys
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1, compression_algorithm="gzip")
        assert driven.call("topic", stream, "events")["compression_algorithm"] == "gzip"
        with pytest.raises(ClientError):
            driven.call("create_topic", stream, "other", 1, options={"no_such_option": "1"})


def test_the_server_tells_of_itself(address_of: Address, stream: str) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 3)
        stats = driven.call("ask", "get_stats")
        assert stats["process_id"] > 0
        assert stats["streams_count"] >= 1
        assert stats["partitions_count"] >= 3
        assert stats["clients_count"] >= 1
        me = bytes.fromhex(driven.call("request", 20, ""))
        clients = bytes.fromhex(driven.call("request", 22, ""))
        assert me[:8] in clients


def test_users_do_what_they_may(address_of: Address, stream: str) -> None:
    address = address_of("ours")
    name = f"user-{stream}"
    with logged_in(VSR, address) as root:
        root.call("create_stream", stream)
        root.call("create_topic", stream, "events", 1)
        root.call("ask", "create_user", name, "secret")
        assert name in {each["username"] for each in root.call("ask", "get_users")}
        with logged_in(VSR, address, name, "secret") as user:
            for forbidden in ("get_streams", "get_users", "get_stats"):
                with pytest.raises(ClientError):
                    user.call("ask", forbidden)
            with pytest.raises(ClientError):
                user.send(stream, "events", 0, [b"x"])
            root.call("update_permissions", name, send_messages=True, read_topics=True)
            user.send(stream, "events", 0, [b"x"])
            with pytest.raises(ClientError):
                user.call("create_stream", f"{stream}-2")
        root.call("ask", "change_password", name, "secret", "changed")
        with pytest.raises(ClientError):
            _log_in(address, name, "secret")
        _log_in(address, name, "changed")
        root.call("ask", "delete_user", name)
        with pytest.raises(ClientError):
            _log_in(address, name, "changed")
        assert root.call("ask", "get_user", name) is None


def _log_in(address: str, name: str, password: str) -> None:
    with Driven(VSR, address) as driven:
        driven.call("connect")
        driven.call("login", name, password)


def test_a_logout_takes_what_the_login_gave(address_of: Address) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        driven.call("ask", "logout_user")
        with pytest.raises(ClientError):
            driven.call("ask", "get_streams")
        driven.call("login", "iggy", "iggy")
        driven.call("ask", "get_streams")


def test_an_offset_is_told_by_its_command(address_of: Address, stream: str) -> None:
    with logged_in(VSR, address_of("ours")) as driven:
        driven.call("create_stream", stream)
        driven.call("create_topic", stream, "events", 1)
        driven.send(stream, "events", 0, [b"x"] * 5)
        driven.poll(stream, "events", 0, "Next", count=3, commit=True)
        name, topic = stream.encode(), b"events"
        payload = (
            b"\x01\x01\x04"
            + struct.pack("<I", 1)  # the consumer 1
            + b"\x02"
            + bytes([len(name)])
            + name
            + b"\x02"
            + bytes([len(topic)])
            + topic
            + b"\x01"
            + struct.pack("<I", 0)
        )
        told = bytes.fromhex(driven.call("request", 120, payload.hex()))
        assert struct.unpack("<IQQ", told) == (0, 4, 2)


def test_a_connection_string_logs_in(address_of: Address, stream: str) -> None:
    address = address_of("ours")
    for client in (CLASSIC, VSR):
        with Driven(client, address) as driven:
            driven.call("connect_with", f"iggy+tcp://iggy:iggy@{address}")
            driven.call("create_stream", f"{stream}-{client.version}")
