"""SIGKILL of our store while Iggy's own clients send: nothing acknowledged is lost."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.interop.iggy.clients import ALL, StockClient, logged_in
from tests.interop.iggy.conftest import named
from tests.support.iggy.face import IggyFace

pytestmark = pytest.mark.process

ROUNDS = 3
BATCHES_BEFORE_A_KILL = 20


@pytest.mark.parametrize("client", ALL, ids=named)
def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path, client: StockClient) -> None:
    acknowledged: list[bytes] = []
    sent = 0
    with IggyFace(tmp_path) as face:
        for round_number in range(ROUNDS):
            with logged_in(client, face.address) as driven:
                if round_number == 0:
                    driven.call("create_stream", "s")
                    driven.call("create_topic", "s", "t", 1)
                for at in range(BATCHES_BEFORE_A_KILL):
                    batch = [b"%d" % number for number in range(sent, sent + 50)]
                    sent += 50
                    if at == BATCHES_BEFORE_A_KILL - 1:  # it is under way at the kill
                        hexed = [payload.hex() for payload in batch]
                        driven.begin("send", "s", "t", client.first, hexed)
                    else:
                        driven.send("s", "t", 0, batch)
                        acknowledged += batch
                face.kill()
            face.start()
        with logged_in(client, face.address) as driven:
            found = driven.payloads("s", "t")
            topic = driven.call("topic", "s", "t")
    kept = set(acknowledged)
    assert [payload for payload in found if payload in kept] == acknowledged
    # of what was not acknowledged a batch is there whole, or not at all
    assert len(found) % 50 == 0
    assert topic["messages_count"] == len(found)


@pytest.mark.parametrize("client", ALL, ids=named)
def test_a_stored_offset_is_there_after_a_kill(tmp_path: Path, client: StockClient) -> None:
    with IggyFace(tmp_path) as face:
        with logged_in(client, face.address) as driven:
            driven.call("create_stream", "s")
            driven.call("create_topic", "s", "t", 1)
            driven.send("s", "t", 0, [b"%d" % number for number in range(10)])
            polled = driven.poll("s", "t", 0, "Next", count=4, commit=True)
            # what the next request sees is durable, for it waited for the store
            driven.send("s", "t", 0, [b"10"])
        face.kill()
        face.start()
        with logged_in(client, face.address) as driven:
            rest = driven.poll("s", "t", 0, "Next", count=100)
    assert len(polled) == 4
    # an automatic commit may be repeated after a crash, but skips nothing
    assert rest[0]["offset"] in range(5)
    assert rest[-1]["offset"] == 10


def test_the_store_stops_in_good_order_though_clients_are_connected(tmp_path: Path) -> None:
    with IggyFace(tmp_path) as face, ExitStack() as stack:
        for client in ALL:
            driven = stack.enter_context(logged_in(client, face.address))
            driven.call("create_stream", f"s-{client}")
        assert face.stop() == 0
        face.start()
        with logged_in(ALL[0], face.address) as driven:
            for client in ALL:
                assert driven.call("stream", f"s-{client}") is not None
