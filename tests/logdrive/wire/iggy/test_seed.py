"""Each command of R0, value and bytes both ways. The bytes follow from the layouts alone."""

from typing import NamedTuple

import pytest

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.errors import IggyError, Reason, error_of
from logdrive.wire.iggy.frames import encode_reply_frame, encode_request_frame
from logdrive.wire.iggy.identifiers import (
    Balanced,
    ByKey,
    Consumer,
    ConsumerKind,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from logdrive.wire.iggy.limits import NEVER
from logdrive.wire.iggy.options import TopicOptions
from logdrive.wire.iggy.replies import (
    ClientDetails,
    ClientInfo,
    ClientTransport,
    ConsumerOffset,
    GroupDetails,
    GroupInfo,
    IggyReply,
    IggyStreamInfo,
    MemberInfo,
    Membership,
    PartitionInfo,
    Polled,
    ServerStats,
    StreamDetails,
    TopicDetails,
    TopicInfo,
)
from logdrive.wire.iggy.replies_codec import decode_reply, encode_reply
from logdrive.wire.iggy.requests import IggyRequest, IggyRequestFor
from logdrive.wire.iggy.requests_codec import decode_request, encode_request
from logdrive.wire.iggy.revision import Revision

R0 = Revision.R0
CREATED = 0x60A24181E4000  # of all that is created here
STREAM_1 = "010401000000"
LOGS = "02046c6f6773"
NO_ID = "00" * 16
HELLO_SENT = f"{NO_ID}000000000500000068656c6c6f"
HEADED_SENT = f"{NO_ID}0f000000020000006b310604000000feffffff030000000001ff"
ALONE = Consumer(ConsumerKind.CONSUMER, 1)


class Asked(NamedTuple):
    name: str
    request: IggyRequest
    frame: str


def ask(name: str, request: IggyRequest, frame: str) -> Asked:
    return Asked(name, request, frame.replace(" ", ""))


def sent(partitioning: Balanced | ToPartition | ByKey, batch: str) -> requests.SendMessages:
    return requests.SendMessages(1, 1, partitioning, bytes.fromhex(batch))


REQUESTS = [
    ask("ping", requests.Ping(), "04000000 01000000"),
    ask("stats", requests.GetStats(), "04000000 0a000000"),
    ask("me", requests.GetMe(), "04000000 14000000"),
    ask("client", requests.GetClient(0x3225AAFD), "08000000 15000000 fdaa2532"),
    ask("clients", requests.GetClients(), "04000000 16000000"),
    ask(
        "poll-a-consumer",
        requests.PollMessages(ALONE, 1, 1, 0, PollingStrategy(PollingKind.OFFSET, 0), 10),
        f"27000000 64000000 0101000000 {STREAM_1}{STREAM_1} 01000000 01 0000000000000000"
        "0a000000 00",
    ),
    ask(
        "poll-a-group",
        requests.PollMessages(
            Consumer(ConsumerKind.GROUP, 7),
            1,
            1,
            None,
            PollingStrategy(PollingKind.NEXT),
            10,
            auto_commit=True,
        ),
        f"27000000 64000000 0207000000 {STREAM_1}{STREAM_1} 00000000 05 0000000000000000"
        "0a000000 01",
    ),
    ask(
        "send-balanced",
        sent(Balanced(), HELLO_SENT),
        f"2f000000 65000000 {STREAM_1}{STREAM_1} 0100 {HELLO_SENT}",
    ),
    ask(
        "send-to-a-partition",
        sent(ToPartition(0), HELLO_SENT + HEADED_SENT),
        f"5d000000 65000000 {STREAM_1}{STREAM_1} 020401000000 {HELLO_SENT}{HEADED_SENT}",
    ),
    ask(
        "send-by-a-key",
        sent(ByKey(b"order-1"), HELLO_SENT),
        f"36000000 65000000 {STREAM_1}{STREAM_1} 03076f726465722d31 {HELLO_SENT}",
    ),
    ask(
        "offset",
        requests.GetConsumerOffset(ALONE, 1, 1, 0),
        f"19000000 78000000 0101000000 {STREAM_1}{STREAM_1} 01000000",
    ),
    ask(
        "store-offset",
        requests.StoreConsumerOffset(ALONE, 1, 1, 0, 1),
        f"21000000 79000000 0101000000 {STREAM_1}{STREAM_1} 01000000 0100000000000000",
    ),
    ask("stream-by-number", requests.GetStream(1), f"0a000000 c8000000 {STREAM_1}"),
    ask("stream-by-name", requests.GetStream("logs"), f"0a000000 c8000000 {LOGS}"),
    ask("streams", requests.GetStreams(), "04000000 c9000000"),
    ask(
        "create-stream",
        requests.IggyCreateStream("logs", 1),
        "0d000000 ca000000 01000000 046c6f6773",
    ),
    ask("delete-stream", requests.DeleteStream("logs"), f"0a000000 cb000000 {LOGS}"),
    ask("topic", requests.GetTopic("logs", 1), f"10000000 2c010000 {LOGS}{STREAM_1}"),
    ask("topics", requests.GetTopics("logs"), f"0a000000 2d010000 {LOGS}"),
    ask(
        "create-topic",
        requests.CreateTopic(1, "app", 2, TopicOptions(expiry_us=NEVER), 1),
        f"1a000000 2e010000 {STREAM_1} 01000000 02000000 00000000 03617070",
    ),
    ask(
        "create-topic-with-expiry",
        requests.CreateTopic("logs", "app", 2, TopicOptions(expiry_us=60_000_000), 1),
        f"1a000000 2e010000 {LOGS} 01000000 02000000 3c000000 03617070",
    ),
    ask("delete-topic", requests.DeleteTopic(1, 1), f"10000000 2f010000 {STREAM_1}{STREAM_1}"),
    ask(
        "create-partitions",
        requests.CreatePartitions(1, 1, 3),
        f"14000000 92010000 {STREAM_1}{STREAM_1} 03000000",
    ),
    ask(
        "delete-partitions",
        requests.DeletePartitions(1, 1, 1),
        f"14000000 93010000 {STREAM_1}{STREAM_1} 01000000",
    ),
    ask("group", requests.GetGroup(1, 1, 7), f"14000000 58020000 {STREAM_1}{STREAM_1} 07000000"),
    ask("groups", requests.GetGroups(1, 1), f"10000000 59020000 {STREAM_1}{STREAM_1}"),
    ask(
        "create-group",
        requests.CreateGroup(1, 1, None, 7),
        f"14000000 5a020000 {STREAM_1}{STREAM_1} 07000000",
    ),
    ask(
        "delete-group",
        requests.DeleteGroup(1, 1, 7),
        f"14000000 5b020000 {STREAM_1}{STREAM_1} 07000000",
    ),
    ask(
        "join-group",
        requests.JoinGroup(1, 1, 7),
        f"14000000 5c020000 {STREAM_1}{STREAM_1} 07000000",
    ),
    ask(
        "leave-group",
        requests.LeaveGroup(1, 1, 7),
        f"14000000 5d020000 {STREAM_1}{STREAM_1} 07000000",
    ),
]

STREAM = IggyStreamInfo(1, CREATED, 1, 0, 0, "logs")
TOPIC = TopicInfo(1, CREATED, 2, 0, 0, "app")
PARTITIONS = (PartitionInfo(0, CREATED, 1, 0, 0, 0), PartitionInfo(1, CREATED, 1, 0, 0, 0))
CLIENT = ClientInfo(0x3225AAFD, ClientTransport.TCP, "127.0.0.1:5000", 1)
STATS = ServerStats(
    process=42,
    cpu=1.5,
    memory=1,
    memory_total=2,
    memory_available=3,
    run_time_us=4_000_000,
    start_time_us=5_000_000,
    read_bytes=6,
    written_bytes=7,
    size=8,
    streams=1,
    topics=2,
    partitions=3,
    segments=4,
    messages=5,
    clients=6,
    groups=7,
    hostname="host",
    os_name="Linux",
    os_version="12",
    kernel="6.1",
)
AT = "00401e18240a0600"  # CREATED
STREAM_HEX = f"01000000 {AT} 01000000 0000000000000000 0000000000000000 046c6f6773"
TOPIC_HEX = f"01000000 {AT} 02000000 00000000 0000000000000000 0000000000000000 03617070"
EMPTY_PARTITION = f"{AT} 01000000 0000000000000000 0000000000000000 0000000000000000"
PARTITIONS_HEX = f"01000000 {EMPTY_PARTITION} 02000000 {EMPTY_PARTITION}"
CLIENT_HEX = "fdaa2532 01 0e000000 3132372e302e302e313a35303030 01000000"
MESSAGES = (
    f"0000000000000000 01 {AT} 01000000000000000000000000000000 86a61036 00000000"
    " 05000000 68656c6c6f".replace(" ", "")
)
POLL = requests.PollMessages(ALONE, 1, 1, 0, PollingStrategy(PollingKind.FIRST), 10)


class Told(NamedTuple):
    name: str
    request: IggyRequest
    reply: IggyReply
    payload: str


REPLIES = [
    Told("ping", requests.Ping(), None, ""),
    Told(
        "stats",
        requests.GetStats(),
        STATS,
        "2a000000 0000c03f 0100000000000000 0200000000000000 0300000000000000 0400000000000000"
        "0500000000000000 0600000000000000 0700000000000000 0800000000000000 01000000 02000000"
        "03000000 04000000 0500000000000000 06000000 07000000 04000000686f7374"
        "050000004c696e7578 020000003132 03000000362e31",
    ),
    Told(
        "me",
        requests.GetMe(),
        ClientDetails(CLIENT, (Membership(1, 2, 7),)),
        f"{CLIENT_HEX} 01000000 02000000 07000000",
    ),
    Told("clients", requests.GetClients(), (CLIENT, CLIENT), CLIENT_HEX * 2),
    Told("no-clients", requests.GetClients(), (), ""),
    Told(
        "poll",
        POLL,
        Polled(0, 1, 1, bytes.fromhex(MESSAGES)),
        f"01000000 0100000000000000 01000000 {MESSAGES}",
    ),
    Told("empty-poll", POLL, Polled(0, 1, 0), "01000000 0100000000000000 00000000"),
    Told(
        "offset",
        requests.GetConsumerOffset(ALONE, 1, 1, 0),
        ConsumerOffset(0, 1, 0),
        "01000000 0100000000000000 0000000000000000",
    ),
    Told(
        "stream",
        requests.GetStream(1),
        StreamDetails(STREAM, (TOPIC,)),
        STREAM_HEX + TOPIC_HEX,
    ),
    Told("streams", requests.GetStreams(), (STREAM, STREAM), STREAM_HEX * 2),
    Told(
        "topic",
        requests.GetTopic(1, 1),
        TopicDetails(TOPIC, PARTITIONS),
        TOPIC_HEX + PARTITIONS_HEX,
    ),
    Told("topics", requests.GetTopics(1), (TOPIC,), TOPIC_HEX),
    Told(
        "group",
        requests.GetGroup(1, 1, 7),
        GroupDetails(GroupInfo(7, 2, 1), (MemberInfo(0x11223344, (0, 1)),)),
        "07000000 02000000 01000000 44332211 02000000 01000000 02000000",
    ),
    Told("groups", requests.GetGroups(1, 1), (GroupInfo(7, 2, 0),), "07000000 02000000 00000000"),
    Told("sent", sent(Balanced(), HELLO_SENT), None, ""),
]


@pytest.mark.parametrize("vector", REQUESTS, ids=lambda vector: vector.name)
def test_a_request_of_the_first_revision_becomes_its_bytes(vector: Asked) -> None:
    code, payload = encode_request(R0, vector.request)
    assert encode_request_frame(code, payload).hex() == vector.frame


@pytest.mark.parametrize("vector", REQUESTS, ids=lambda vector: vector.name)
def test_the_bytes_of_a_request_of_the_first_revision_become_it(vector: Asked) -> None:
    frame = bytes.fromhex(vector.frame)
    code = int.from_bytes(frame[4:8], "little")
    assert decode_request(R0, code, frame[8:]) == vector.request


@pytest.mark.parametrize("vector", REPLIES, ids=lambda vector: vector.name)
def test_a_reply_of_the_first_revision_becomes_its_bytes(vector: Told) -> None:
    assert encode_reply(R0, vector.request, vector.reply) == bytes.fromhex(vector.payload)


@pytest.mark.parametrize("vector", REPLIES, ids=lambda vector: vector.name)
def test_the_bytes_of_a_reply_of_the_first_revision_become_it(vector: Told) -> None:
    assert isinstance(vector.request, IggyRequestFor)
    got = decode_reply(R0, vector.request, bytes.fromhex(vector.payload))
    assert got == vector.reply


def test_a_missing_stream_is_told_by_a_status_without_a_payload() -> None:
    with pytest.raises(IggyError) as caught:
        encode_reply(R0, requests.GetStream(7), None)
    assert caught.value.reason is Reason.STREAM_NOT_FOUND
    assert encode_reply_frame(caught.value.code(R0)).hex() == "f103000000000000"
    assert error_of(R0, 1009).reason is Reason.STREAM_NOT_FOUND


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (requests.GetStream("x"), 1010),
        (requests.GetTopic(1, 2), 2010),
        (requests.GetTopic(1, "x"), 2011),
        (requests.GetGroup(1, 1, 9), 5000),
        (requests.GetClient(9), 100),
    ],
)
def test_what_is_missing_has_the_status_that_the_server_of_the_seed_gives(
    request_: IggyRequest, code: int
) -> None:
    with pytest.raises(IggyError) as caught:
        encode_reply(R0, request_, None)
    assert caught.value.code(R0) == code


def test_an_offset_that_was_never_stored_is_told_as_0() -> None:
    asked = requests.GetConsumerOffset(ALONE, 1, 1, 2)
    assert decode_reply(R0, asked, encode_reply(R0, asked, None)) == ConsumerOffset(2, 0, 0)
    later = encode_reply(Revision.R1, asked, None)
    assert decode_reply(Revision.R1, asked, later) is None
