"""The PyPI client `pravega`, as it is, against `logdrive store run`: no event lost, doubled, or out
of its key's order.
"""

import asyncio
import importlib.util
import itertools
import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.processes import free_port
from tests.conftest import unavailable

if importlib.util.find_spec("pravega_client") is not None:
    from tests.interop.stock.service import Service, by_key, cutting, ended, failed, serving

pytestmark = pytest.mark.process
KEYS = 6
FLEET, OTHER = ("fleet", "a secret"), ("other", "not yours")


@pytest.fixture(autouse=True)
def _client() -> None:
    if importlib.util.find_spec("pravega_client") is None:
        unavailable("no PyPI pravega 0.3.8: it has wheels for CPython 3.11 on x86-64 Linux only")


@pytest.fixture
def service(tmp_path: Path) -> "Iterator[Service]":
    with serving(tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def strangers(
    tmp_path_factory: pytest.TempPathFactory,
) -> "Iterator[tuple[Service, dict[str, subprocess.Popen[str]]]]":
    """A store that asks who comes, and clients whose logins it refuses.

    They try eleven times, which takes a minute: so they begin with the first test of this file, and
    the last one looks at them.
    """
    users = {
        FLEET[0]: (FLEET[1], '"users/*" = "READ_UPDATE"'),
        OTHER[0]: (OTHER[1], '"others/*" = "READ_UPDATE"'),
    }
    with serving(tmp_path_factory.mktemp("asking"), users=users) as service:
        service.told("write", 2, KEYS, 0, 10, login=FLEET)
        begun = {
            "a wrong password": service.scenario(
                "write", 2, KEYS, 10, 20, login=("fleet", "a guess")
            ),
            "a wrong password of a reader": service.scenario(
                "read", "group", 1, login=("fleet", "a guess")
            ),
            "an unknown user": service.scenario(
                "write", 2, KEYS, 10, 20, login=("nobody", "a guess")
            ),
            "no login": service.scenario("write", 2, KEYS, 10, 20),
        }
        yield service, begun
        for process in begun.values():
            process.kill()
            process.communicate()


@pytest.mark.usefixtures("strangers")
def test_scopes_and_streams_are_administered(service: "Service") -> None:
    results = service.told("administer")
    assert results == [
        True,
        False,
        True,
        False,
        ["t1"],
        True,
        ["t2", "t3"],
        ["users"],
        ["events"],
        [],
        True,
        True,
        True,
    ]


def test_routed_events_come_back_in_the_order_of_their_keys(service: "Service") -> None:
    service.told("write", 3, KEYS, 0, 100)
    read = by_key(service.told("read", "group", KEYS * 100))
    assert read == {str(key): list(range(100)) for key in range(KEYS)}


def test_both_faces_are_reached_over_tls_and_their_certificates_verified(
    tmp_path: Path, certificates: Path
) -> None:
    with serving(tmp_path, tls=certificates) as service:
        service.told("write", 2, KEYS, 0, 20)
        read = by_key(service.told("read", "group", KEYS * 20))
    assert read == {str(key): list(range(20)) for key in range(KEYS)}


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_who_may_only_read_stores_nothing_and_who_may_write_goes_on_after_token_has_ended(
    tmp_path: Path, certificates: Path, secure: bool
) -> None:
    fleet, viewer = ("fleet", "a secret"), ("viewer", "peek: no more")
    users = {
        "fleet": (fleet[1], '"users/*" = "READ_UPDATE"'),
        # where this client keeps a group's state
        "viewer": (viewer[1], '"users/*" = "READ", "users/*_kvtable" = "READ_UPDATE"'),
    }
    with serving(tmp_path, tls=certificates if secure else None, users=users) as service:
        read = by_key(service.told("lingered", 0 if secure else 7, login=fleet))
        assert read == {"0": list(range(20))}
        assert service.told("intruded", login=viewer) == ["refused"] * 3
        assert by_key(service.told("read", "other", 20, login=viewer)) == read


def test_readers_leave_and_join_and_lag_and_go_on_where_the_group_was(service: "Service") -> None:
    parts = service.told("handed_over")
    assert [len(part) for part in parts] == [3, 97, 100]
    assert by_key([event for part in parts for event in part]) == {
        str(key): list(range(50)) for key in range(4)
    }


def test_a_byte_stream_is_written_read_sought_in_and_truncated(service: "Service") -> None:
    assert service.told("bytes_of") == [
        15,
        15,
        15,
        45,
        10,
        "bytesforte",
        10,
        10,
        "fortesting",
        20,
        45,
    ]


def test_transactions_are_there_when_committed_and_nowhere_when_aborted(service: "Service") -> None:
    assert service.told("transactions") == [
        True,
        False,
        False,
        False,
        "refused",
        "refused",
        "refused",
    ]
    read = service.told("read", "group", 20)
    assert sorted(read) == sorted(f"kept {number}" for number in range(20))


def test_an_event_larger_than_a_frame_comes_back_whole(service: "Service") -> None:
    assert service.told("large", 12) == [6, 12 << 20, 5]


def test_a_sealed_stream_refuses_and_can_still_be_read_and_deleted(service: "Service") -> None:
    assert service.told("sealed") == [True, "refused", "one", True]


def test_a_stream_is_scaled_under_writing(service: "Service") -> None:
    service.told("write", 1, KEYS, 0, 1)
    writing = service.scenario("write", 1, KEYS, 1, 400)
    for split in itertools.cycle((True, True, False)):
        service.scale(split)
        time.sleep(0.2)
        if writing.poll() is not None:
            break
    ended(writing)
    read = by_key(service.told("read", "group", KEYS * 400))
    assert read == {str(key): list(range(400)) for key in range(KEYS)}


def test_what_was_written_outlives_a_killed_store_and_writers_go_on(service: "Service") -> None:
    service.told("write", 2, KEYS, 0, 1)
    writing = service.scenario("write", 2, KEYS, 1, 400)
    for _ in range(3):
        service.kill()
        service.start()
    ended(writing)
    read = by_key(service.told("read", "group", KEYS * 400))
    assert read == {str(key): list(range(400)) for key in range(KEYS)}


@pytest.mark.parametrize("seed", range(2))
def test_connections_cut_anywhere_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    between, chance = free_port(), random.Random(seed)

    async def main(service: "Service") -> list[str]:
        async with cutting(between, service.segments, lambda: chance.randrange(60, 6000)):
            await asyncio.to_thread(service.told, "write", 2, KEYS, 0, 60)
            events: list[str] = await asyncio.to_thread(service.told, "read", "group", KEYS * 60)
            return events

    with serving(tmp_path, advertise=between) as service:
        read = by_key(asyncio.run(main(service)))
    assert read == {str(key): list(range(60)) for key in range(KEYS)}


def test_transactions_over_connections_cut_anywhere_are_whole_or_nowhere(tmp_path: Path) -> None:
    between, chance = free_port(), random.Random(1)

    async def main(service: "Service") -> list[str]:
        async with cutting(between, service.segments, lambda: chance.randrange(60, 3000)):
            await asyncio.to_thread(service.told, "committed", KEYS, 15)
            events: list[str] = await asyncio.to_thread(service.told, "read", "group", KEYS * 15)
            return events

    with serving(tmp_path, advertise=between) as service:
        read = by_key(asyncio.run(main(service)))
    assert read == {str(key): list(range(15)) for key in range(KEYS)}


def test_two_readers_of_a_group_read_on_while_its_stream_is_written_and_scaled(
    service: "Service", tmp_path: Path
) -> None:
    (beside := tmp_path / "counts").mkdir()
    service.told("write", 2, KEYS, 0, 1)
    readers = [
        service.scenario("shared", "group", name, KEYS * 150, beside) for name in ("one", "two")
    ]
    writing = service.scenario("write", 2, KEYS, 1, 150)
    for split in itertools.cycle((True, True, False)):
        service.scale(split)
        time.sleep(0.3)
        if writing.poll() is not None:
            break
    ended(writing)
    parts = [by_key(ended(reader)) for reader in readers]
    numbers = {
        key: sorted(number for part in parts for number in part.get(key, ()))
        for key in map(str, range(KEYS))
    }
    assert numbers == {str(key): list(range(150)) for key in range(KEYS)}
    for part in parts:
        assert all(of_key == sorted(of_key) for of_key in part.values())


def test_strangers_end_with_an_error_that_says_why_and_others_go_on(
    strangers: "tuple[Service, dict[str, subprocess.Popen[str]]]",
) -> None:
    service, begun = strangers
    service.told("write", 2, KEYS, 10, 20, login=FLEET)
    for scenario in (("administer",), ("write", 2, KEYS, 20, 30), ("read", "group", 1)):
        error = failed(service.scenario(*scenario, login=OTHER))
        assert "PermissionDenied" in error, scenario
        assert "other may not READ" in error
    for who, process in begun.items():
        error = failed(process)
        assert "Unauthenticated" in error, who
        assert (
            "this controller needs a user"
            if who == "no login"
            else "the user or the password is wrong"
        ) in error
    read = by_key(service.told("read", "group", KEYS * 20, login=FLEET))
    assert read == {str(key): list(range(20)) for key in range(KEYS)}, (
        "nothing of theirs was stored"
    )
