"""Requests and answers of S2's protocol, over HTTP/2 in memory. See docs/protocols/s2.md."""

import base64
import gzip

import orjson
import zstandard

from logdrive.store.streams.state import StreamConfig as CatalogConfig
from logdrive.store.streams.streams import Streams
from logdrive.wire.s2 import protobuf
from logdrive.wire.s2.records import AppendInput, Record
from tests.logdrive.services.s2.server.served import BASIN, JSON, Face, with_face

PROTOBUF = "application/protobuf"
RECORDS = "/v1/streams/a/records"


@with_face
async def test_records_are_read_as_they_were_appended_in_json_and_protobuf(made: Face) -> None:
    await made.make("a")
    acked = await made.append("a", "one", "two")
    assert acked.status == 200
    assert acked.json["start"]["seq_num"] == 0
    assert acked.json["end"]["seq_num"] == acked.json["tail"]["seq_num"] == 2

    sent = AppendInput((Record(b"three", ((b"k", b"v"), (b"k", b"")), 17),), match_seq_num=2)
    got = await made.ask(
        "POST",
        RECORDS,
        protobuf.encode_append_input(sent),
        ("content-type", "application/x-protobuf; x=y"),
        ("accept", PROTOBUF),
    )
    assert protobuf.decode_append_ack(got.body).end.seq_num == 3
    assert got.headers["content-type"] == PROTOBUF

    read = await made.ask("GET", f"{RECORDS}?seq_num=0")
    assert [record["body"] for record in read.json["records"]] == ["one", "two", "three"]
    assert read.json["records"][2]["headers"] == [["k", "v"], ["k", ""]]
    assert "headers" not in read.json["records"][0]
    assert read.json["tail"]["seq_num"] == 3
    read = await made.ask("GET", f"{RECORDS}?seq_num=1&count=1", None, ("accept", PROTOBUF))
    assert [record.body for record in protobuf.decode_read_batch(read.body).records] == [b"two"]
    tail = await made.ask("GET", f"{RECORDS}/tail")
    assert tail.json["tail"]["seq_num"] == 3


@with_face
async def test_base64_carries_any_bytes_and_commands(made: Face) -> None:
    await made.make("a")
    body = base64.b64encode(b"\xff\x00").decode()
    trim = {
        "headers": [["", base64.b64encode(b"trim").decode()]],
        "body": base64.b64encode((1).to_bytes(8, "big")).decode(),
    }
    sent = {"records": [{"body": body}, {"body": body}, trim]}
    got = await made.ask("POST", RECORDS, sent, ("s2-format", "base64"))
    assert got.status == 200
    read = await made.ask("GET", f"{RECORDS}?seq_num=0", None, ("s2-format", "base64"))
    assert [record["seq_num"] for record in read.json["records"]][-2:] == [1, 2]
    assert read.json["records"][-2]["body"] == body
    read = await made.ask("GET", f"{RECORDS}?seq_num=1&count=1")
    assert read.json["records"][0]["body"] == "\ufffd\0"


@with_face
async def test_conditions_that_are_not_met_say_what_holds(made: Face) -> None:
    await made.make("a")
    got = await made.append("a", "x", match_seq_num=5)
    assert (got.status, got.json) == (412, {"seq_num_mismatch": 0})
    got = await made.append("a", "x", fencing_token="mine")
    assert (got.status, got.json) == (412, {"fencing_token_mismatch": ""})
    got = await made.ask("GET", f"{RECORDS}?seq_num=7", None, ("accept", PROTOBUF))
    assert (got.status, got.json) == (416, {"tail": {"seq_num": 0, "timestamp": 0}})


@with_face
async def test_errors_have_the_codes_of_the_protocol(made: Face) -> None:
    await made.make("a", "b/c")
    long, records = "x" * 37, {"records": [{"body": "x"}]}
    cases: list[tuple[tuple[int, str | None], str, str, object, tuple[tuple[str, str], ...]]] = [
        ((404, "stream_not_found"), "GET", "/v1/streams/none/records", None, ()),
        ((404, "stream_not_found"), "POST", "/v1/streams/none/records", records, ()),
        ((404, "stream_not_found"), "GET", "/v1/streams/none/records/tail", None, ()),
        ((404, "stream_not_found"), "DELETE", "/v1/streams/none", None, ()),
        ((404, "stream_not_found"), "GET", "/v1/streams/b%2Fd", None, ()),
        ((409, "resource_already_exists"), "POST", "/v1/streams", {"stream": "a"}, ()),
        ((400, "bad_json"), "POST", "/v1/streams", {"stream": ""}, ()),
        ((400, "bad_json"), "POST", "/v1/streams", b"{", (JSON,)),
        ((400, "bad_json"), "POST", RECORDS, orjson.dumps(records), (("content-type", "text/x"),)),
        ((400, "bad_proto"), "POST", RECORDS, b"\xff", (("content-type", PROTOBUF),)),
        ((400, "bad_header"), "POST", RECORDS, records, (("s2-format", "hex"),)),
        (
            (400, "bad_header"),
            "POST",
            "/v1/streams",
            {"stream": "z"},
            (("s2-request-token", long),),
        ),
        (
            (400, "bad_header"),
            "GET",
            RECORDS,
            None,
            (("accept", "text/event-stream"), ("last-event-id", "1")),
        ),
        (
            (422, "invalid"),
            "POST",
            RECORDS,
            {"records": [{"body": "?"}]},
            (("s2-format", "base64"),),
        ),
        ((422, "invalid"), "POST", RECORDS, {"records": []}, ()),
        ((400, "bad_query"), "GET", f"{RECORDS}?count=-1", None, ()),
        ((422, "invalid"), "GET", f"{RECORDS}?seq_num=0&timestamp=1", None, ()),
        ((422, "invalid"), "PATCH", "/v1/streams/a", {"retention_policy": {"age": 0}}, ()),
        ((400, "bad_path"), "GET", "/v1/streams/%FF", None, ()),
        ((400, "bad_path"), "GET", "/v1/basins/SHORT", None, ()),
        ((422, "invalid"), "POST", "/v1/basins", {"basin": "other-basin", "location": "moon"}, ()),
        ((415, None), "POST", RECORDS, records, (("content-encoding", "br"),)),
        ((404, None), "GET", "/v2/streams", None, ()),
        ((404, None), "GET", "/v1/streams/a/b", None, ()),
        ((405, None), "PUT", RECORDS, records, ()),
    ]
    for expected, method, path, body, headers in cases:
        got = await made.ask(method, path, body, *headers)
        assert got.code == expected, (method, path, body)
    got = await made.ask("GET", RECORDS, basin=None)
    assert got.code == (400, "bad_header")
    got = await made.ask("GET", RECORDS, basin="no-such-basin")
    assert got.code == (404, "basin_not_found")


@with_face
async def test_long_answers_are_compressed_as_the_client_likes(made: Face) -> None:
    await made.make("a")
    await made.append("a", "x" * 2000)
    for accepted, used in (
        ("gzip", "gzip"),
        ("gzip, zstd", "zstd"),
        ("zstd;q=0", None),
        ("", None),
    ):
        headers = (("accept-encoding", accepted),) if accepted else ()
        got = await made.ask("GET", f"{RECORDS}?seq_num=0", None, *headers)
        assert got.headers.get("content-encoding") == used
        body = got.body
        if used is not None:
            body = gzip.decompress(body) if used == "gzip" else zstandard.decompress(body)
        assert orjson.loads(body)["records"][0]["body"] == "x" * 2000
    got = await made.ask("GET", f"{RECORDS}/tail", None, ("accept-encoding", "zstd"))
    assert "content-encoding" not in got.headers


@with_face
async def test_compressed_bodies_are_read_and_bombs_are_refused(made: Face) -> None:
    await made.make("a")
    data = orjson.dumps({"records": [{"body": "x" * 5000}]})
    for name, packed in (("gzip", gzip.compress(data)), ("zstd", zstandard.compress(data))):
        got = await made.ask("POST", RECORDS, packed, JSON, ("content-encoding", name))
        assert got.status == 200
    bomb = zstandard.compress(b" " * (64 << 20))
    got = await made.ask("POST", RECORDS, bomb, JSON, ("content-encoding", "zstd"))
    assert got.code == (400, "bad_json")
    got = await made.ask("POST", RECORDS, b" " * (3 << 20), JSON)
    assert got.code == (400, "bad_json")


@with_face
async def test_an_append_or_a_read_creates_the_stream_where_the_basin_says_so(made: Face) -> None:
    await made.make(create_stream_on_append=True)
    config = ("s2-stream-config", '{"retention_policy": {"age": 60}}')
    got = await made.ask("POST", RECORDS, {"records": [{"body": "x"}]}, config)
    assert got.status == 200
    got = await made.ask("GET", "/v1/streams/a")
    assert got.json["retention_policy"] == {"age": 60}
    got = await made.ask("GET", "/v1/streams/b/records/tail")
    assert got.code == (404, "stream_not_found")
    bad = ("s2-stream-config", '{"retention_policy": {"age": 0}}')
    got = await made.ask("POST", "/v1/streams/b/records", {"records": [{"body": "x"}]}, bad)
    assert got.code == (400, "bad_header")


@with_face
async def test_a_waiting_read_gets_what_is_appended_meanwhile_or_nothing(made: Face) -> None:
    await made.make("a")
    got = await made.ask("GET", f"{RECORDS}?seq_num=0&wait=2")
    assert (got.status, got.json["records"]) == (200, [])
    await made.append("a", "one")
    got = await made.ask("GET", f"{RECORDS}?seq_num=0&wait=60")
    assert got.json["records"][0]["body"] == "one"


@with_face
async def test_what_other_faces_appended_is_read_here(made: Face) -> None:
    streams = Streams(made.catalog)
    await streams.create_scope(BASIN)
    await streams.create(BASIN, "by-pravega", CatalogConfig())
    got = await made.append("by-pravega", "from S2")
    assert got.status == 200
    got = await made.ask("GET", "/v1/streams")
    assert [stream["name"] for stream in got.json["streams"]] == ["by-pravega"]
    got = await made.ask("GET", "/v1/streams/by-pravega")
    assert got.json["retention_policy"] == {"infinite": {}}
    content = made.store.read(f"{BASIN}/by-pravega/0.#epoch.0", 0, 1000)
    assert content.endswith(b"from S2")


@with_face
async def test_a_token_is_held_to_its_scope_and_others_may_do_everything(made: Face) -> None:
    await made.make("mine/a", "other")
    issued = await made.ask(
        "POST",
        "/v1/access-tokens",
        {
            "id": "t",
            "scope": {
                "basins": {"exact": BASIN},
                "streams": {"prefix": "mine/"},
                "op_groups": {"stream": {"read": True}, "basin": {"read": True}},
                "ops": ["append"],
            },
            "auto_prefix_streams": True,
        },
    )
    assert issued.status == 201
    bearer = ("authorization", f"Bearer {issued.json['access_token']}")
    got = await made.ask("GET", "/v1/streams", None, bearer)
    assert [stream["name"] for stream in got.json["streams"]] == ["a"]
    body = {"records": [{"body": "x"}]}
    assert (await made.ask("POST", RECORDS, body, bearer)).status == 200
    assert (await made.ask("GET", "/v1/streams/mine%2Fa/records?seq_num=0")).status == 200
    got = await made.ask("DELETE", "/v1/streams/a", None, bearer)
    assert got.code == (403, "permission_denied")
    got = await made.ask("GET", "/v1/access-tokens", None, bearer)
    assert got.code == (403, "permission_denied")
    fence = {"records": [{"headers": [["", "fence"]], "body": "me"}]}
    got = await made.ask("POST", RECORDS, fence, bearer)
    assert got.code == (403, "permission_denied")

    got = await made.ask("GET", "/v1/access-tokens?prefix=t")
    assert got.json["access_tokens"][0]["auto_prefix_streams"] is True
    assert (await made.ask("DELETE", "/v1/access-tokens/t")).status == 204


@with_face
async def test_a_token_is_issued_for_what_s2s_command_line_sends_with_nulls(made: Face) -> None:
    scope = {
        "basins": {"prefix": "shop"},
        "streams": {"prefix": ""},
        "access_tokens": None,
        "op_groups": {"account": {"read": True, "write": True}, "basin": None, "stream": None},
        "ops": None,
    }
    wanted = {"id": "cli", "expires_at": None, "auto_prefix_streams": False, "scope": scope}
    assert (await made.ask("POST", "/v1/access-tokens", wanted)).status == 201


@with_face
async def test_counts_and_bytes_are_shown_as_metrics(made: Face) -> None:
    await made.make("a")
    await made.append("a", "x" * 92)
    got = await made.ask("GET", f"/v1/metrics/{BASIN}?set=append-ops")
    (ops,) = got.json["values"]
    assert ops["accumulation"]["name"] == "append"
    assert [count for _, count in ops["accumulation"]["values"]] == [1]
    got = await made.ask("GET", f"/v1/metrics/{BASIN}/a?set=storage")
    assert got.json["values"][0]["gauge"]["values"][0][1] >= 92
    text = (await made.ask("GET", "/metrics")).body.decode()
    assert 'logdrive_s2_operations_total{operation="append"} 1' in text
    assert "logdrive_s2_appended_bytes_total 100" in text
    assert (await made.ask("GET", "/v1/metrics?set=none")).code == (400, "bad_query")
