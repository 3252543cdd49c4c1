"""Consumer groups of Iggy's own clients: members join, share the partitions, and leave."""

import time
from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest

from tests.interop.iggy.clients import CLASSIC, VSR, ClientError, Driven, StockClient, logged_in
from tests.interop.iggy.conftest import named

pytestmark = pytest.mark.process

Address = Callable[[str], str]
GROUPED = (CLASSIC, VSR)
with_each_client = pytest.mark.parametrize("client", GROUPED, ids=named)
PARTITIONS = 4
ENOUGH_SECONDS = 60.0


def _topic(driven: Driven, stream: str) -> None:
    driven.call("create_stream", stream)
    driven.call("create_topic", stream, "events", PARTITIONS)


def _send(driven: Driven, stream: str, numbers: range) -> set[bytes]:
    """Send a message of each number, to the partitions in turn; return the payloads."""
    payloads = {number: b"message %d" % number for number in numbers}
    for partition in range(PARTITIONS):
        mine = [payloads[number] for number in numbers if number % PARTITIONS == partition]
        driven.send(stream, "events", partition, mine)
    return set(payloads.values())


def _consumed(member: Driven) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = member.call("consumed")
    return found


def _payloads(*members: Driven) -> Counter[bytes]:
    return Counter(
        bytes.fromhex(each["payload"]) for member in members for each in _consumed(member)
    )


def _wait_for(expected: set[bytes], *members: Driven) -> Counter[bytes]:
    """Wait until the members have consumed what is expected; return how often each message was."""
    until = time.monotonic() + ENOUGH_SECONDS
    while time.monotonic() < until:
        found = _payloads(*members)
        if expected <= set(found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"not consumed: {sorted(expected - set(_payloads(*members)))[:10]}")


@with_each_client
def test_one_member_consumes_all_partitions(
    address_of: Address, client: StockClient, stream: str
) -> None:
    with logged_in(client, address_of("ours")) as member:
        _topic(member, stream)
        sent = _send(member, stream, range(40))
        member.call("join", "readers", stream, "events")
        member.call("consume")
        assert _wait_for(sent, member) == Counter(sent)
        by_partition = Counter(each["partition_id"] for each in _consumed(member))
        assert by_partition == dict.fromkeys(range(PARTITIONS), 10)


@with_each_client
def test_members_share_the_partitions_and_who_stays_takes_over(
    address_of: Address, client: StockClient, stream: str
) -> None:
    address = address_of("ours")
    with logged_in(client, address) as first, logged_in(client, address) as sender:
        _topic(sender, stream)
        first.call("join", "readers", stream, "events")
        first.call("consume")
        expected = _send(sender, stream, range(40))
        _wait_for(expected, first)

        with logged_in(client, address) as second:
            second.call("join", "readers", stream, "events")
            second.call("consume")
            number = 40
            until = time.monotonic() + ENOUGH_SECONDS
            while not _consumed(second):  # rebalancing takes a moment
                assert time.monotonic() < until, "the second member was never served"
                expected |= _send(sender, stream, range(number, number + 40))
                number += 40
                time.sleep(0.2)
            _wait_for(expected, first, second)
            shared = _payloads(second)

        # the second has left with its connection
        later = _send(sender, stream, range(number, number + 40))
        _wait_for(later | (expected - set(shared)), first)


@with_each_client
def test_a_group_goes_on_where_its_last_member_committed(
    address_of: Address, client: StockClient, stream: str
) -> None:
    address = address_of("ours")
    with logged_in(client, address) as sender:
        _topic(sender, stream)
        before = _send(sender, stream, range(40))
        with logged_in(client, address) as member:
            member.call("join", "readers", stream, "events")
            member.call("consume")
            _wait_for(before, member)
            time.sleep(0.5)  # the last poll's commit is on its way
        after = _send(sender, stream, range(40, 80))
        with logged_in(client, address) as member:
            member.call("join", "readers", stream, "events")
            member.call("consume")
            assert set(_wait_for(after, member)) == after


@with_each_client
def test_a_member_stores_and_deletes_an_offset(
    address_of: Address, client: StockClient, stream: str
) -> None:
    with logged_in(client, address_of("ours")) as member:
        _topic(member, stream)
        _send(member, stream, range(40))
        member.call("join", "readers", stream, "events", commit=False)
        member.call("store_offset", 4, 1)
        member.call("delete_offset", 1)
        with pytest.raises(ClientError):
            member.call("delete_offset", 1)


def test_the_members_of_a_group_are_shown(address_of: Address, stream: str) -> None:
    address = address_of("ours")
    with logged_in(VSR, address) as one, logged_in(VSR, address) as other:
        _topic(one, stream)
        one.call("ask", "create_consumer_group", stream, "events", "readers")
        assert one.call("ask", "get_consumer_group", stream, "events", "missing") is None
        for member in (one, other):
            member.call("ask", "join_consumer_group", stream, "events", "readers")
        shown = one.call("ask", "get_consumer_group", stream, "events", "readers")
        assert (shown["name"], shown["members_count"]) == ("readers", 2)
        partitions = [each["partitions"] for each in shown["members"]]
        assert sorted(chain.from_iterable(partitions)) == list(range(PARTITIONS))
        assert {len(each) for each in partitions} == {PARTITIONS // 2}

        other.call("ask", "leave_consumer_group", stream, "events", "readers")
        (left,) = one.call("ask", "get_consumer_groups", stream, "events")
        assert left["members_count"] == 1
        one.call("ask", "delete_consumer_group", stream, "events", "readers")
        assert one.call("ask", "get_consumer_groups", stream, "events") == []


def test_more_members_than_partitions_leave_some_without(address_of: Address, stream: str) -> None:
    address = address_of("ours")
    with logged_in(VSR, address) as one, logged_in(VSR, address) as other:
        one.call("create_stream", stream)
        one.call("create_topic", stream, "events", 1)
        one.call("ask", "create_consumer_group", stream, "events", "readers")
        for member in (one, other):
            member.call("ask", "join_consumer_group", stream, "events", "readers")
        shown = one.call("ask", "get_consumer_group", stream, "events", "readers")
        assert sorted(each["partitions_count"] for each in shown["members"]) == [0, 1]
        one.send(stream, "events", 0, [b"x"])
        found = [
            member.call("poll", stream, "events", None, "Next", commit=True, group="readers")
            for member in (one, other)
        ]
        assert sorted(len(each) for each in found) == [0, 1]
