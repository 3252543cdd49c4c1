"""The whole way by a streaming service with a controller: the demo as users run it, and the
pipeline over a stream that was scaled.
"""

import asyncio
import subprocess
from pathlib import Path
from uuid import UUID

import orjson
import pytest

from logdrive.pipeline.read.stream import stream_client
from logdrive.services.pravega.client.controller import StreamSegment
from tests.pravega.real import RealPravega
from tests.pravega.receivers import receiver
from tests.pravega.sites import Site, our_site
from tests.pravega.test_ours_asks import FLEET, auth
from tests.pravega.test_scaling import merge, split
from tests.pravega.test_sink import at_a_site, fresh
from tests.receiver.peers import content, run_of
from tests.support.installation import command


async def logdrive(*arguments: str, codes: tuple[int, ...] = (0,)) -> bytes:
    """Return what a command prints, while this process goes on serving; *codes* are the exit codes
    that are no failure.
    """
    run = await asyncio.create_subprocess_exec(
        *command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        out, said = await run.communicate()
    finally:
        if run.returncode is None:
            run.kill()
    assert run.returncode in codes, said.decode()[-4000:]
    return out


async def shipped(site: Site, stream: str) -> None:
    """Ship 30,000 bytes as one source, with the stream scaled twice on the way."""
    async with receiver(site, stream) as one:
        for turn, change in enumerate((split, merge, None)):
            peer = await one.peer()
            await peer.register(0, UUID(int=0xA))
            await peer.acknowledged(
                await peer.send_window(run_of(0, turn * 10_000, turn * 10_000 + 10_000, lines=1000))
            )
            if change is not None:
                await change(site, stream)


async def read_by_all(uri: str) -> None:
    """Read what was `shipped` as the commands and the pipeline do."""
    face = stream_client(uri)

    def read() -> tuple[list[int], list[bytes]]:
        states = face.list_segments()
        numbers = [face.segment_number(state.segment) for state in states]
        assert [stream_client(uri).name_of_segment(number) for number in numbers] == [
            state.segment for state in states
        ]
        stored = [b"".join(face.read_bytes(state.segment, 0, state.length)) for state in states]
        assert all(
            bool(face.read_batch_refs(state.segment, 0, state.length)) == bool(state.length)
            for state in states
        )
        return numbers, stored

    listed = orjson.loads(await logdrive("store", "ls", uri, "--json"))["segments"]
    assert sum(segment["events"] for segment in listed) == 3000
    assert len(await logdrive("store", "cat", uri)) == 30_000
    numbers, stored = await asyncio.to_thread(read)
    assert numbers == [0, 1, 2, 3]
    assert sum(map(bool, stored)) == 3
    assert sum(map(len, stored)) > len(content(30_000))


@at_a_site
async def test_the_pipelines_reader_finds_every_segment_of_a_stream_that_was_scaled(
    site: Site,
) -> None:
    stream = fresh()
    await shipped(site, stream)
    await read_by_all(f"pravega://127.0.0.1:{site.port}/logs/{stream}")


def test_they_are_found_at_the_face_of_our_store_too_which_has_no_controller(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with our_site(tmp_path) as site:
            await shipped(site, "app")
            face = await site.controller.endpoint(StreamSegment("logs", "app", 0, 0.0, 1.0))
            await read_by_all(f"pravega://127.0.0.1:{face.port}/logs/app")
        assert len(await logdrive("store", "cat", f"file://{tmp_path}/store#logs/app")) == 30_000

    asyncio.run(main())


@pytest.mark.process
@pytest.mark.spark
@at_a_site
async def test_a_table_is_made_of_a_stream_that_was_scaled__A1_A3(site: Site) -> None:
    stream = fresh()
    await shipped(site, stream)
    uri, tables = f"pravega://127.0.0.1:{site.port}/logs/{stream}", str(site.scratch / stream)
    await logdrive("pipeline", "run", "--from", uri, "--to", tables, "--once")
    audit = orjson.loads(await logdrive("pipeline", "audit", tables, "--json"))
    assert audit["complete"]
    assert (
        audit["bytes"],
        audit["events"],
        audit["lost_bytes"],
        audit["duplicate_events"],
        audit["gaps"],
    ) == (30_000, 3000, 0, 0, [])
    readers = orjson.loads(await logdrive("store", "readers", uri, "pipeline", "--json"))[
        "segments"
    ]
    told = [row["position"] is not None for row in readers]
    assert told == [True] * 4 or told == [False, False, False, True], (
        "a real Pravega keeps no positions on sealed segments"
    )
    assert all(row["behind"] == 0 for row in readers if row["position"] is not None)


@pytest.mark.timeout(600)
@pytest.mark.pravega_server
@pytest.mark.process
@pytest.mark.spark
def test_the_demo_with_its_kills_loses_and_doubles_nothing(
    pravega: RealPravega, tmp_path: Path
) -> None:
    asyncio.run(demonstrated(pravega.controller, tmp_path))


@pytest.mark.timeout(600)
@pytest.mark.pravega_server  # it needs none, but takes as long
@pytest.mark.process
@pytest.mark.spark
def test_the_demo_goes_to_a_service_that_asks_who_comes_and_leaves_no_password_behind(
    tmp_path: Path,
) -> None:
    (password := tmp_path / "password").write_text(FLEET.password + "\n")

    async def main() -> None:
        async with our_site(tmp_path, auth=auth(tmp_path), login=FLEET) as site:
            await demonstrated(
                site.port, tmp_path, "--user", FLEET.user, "--password-file", str(password)
            )

    asyncio.run(main())
    left = [path for path in (tmp_path / "demo").rglob("*") if path.is_file()]
    assert not [path for path in left if FLEET.password.encode() in path.read_bytes()]


async def demonstrated(port: int, directory: Path, *login: str) -> None:
    """Play the demo onto a service, which must lose and double nothing."""
    uri, work = f"pravega://127.0.0.1:{port}/logs/{fresh()}", directory / "demo"
    arguments = ("demo", "--lines", "8000", "--work", str(work), "--sink", uri, *login, "--json")
    # A slow machine may rotate a file away while the agent is dead: its end is then unknown, which
    # the demo does not call complete.
    outcome = orjson.loads(await logdrive(*arguments, codes=(0, 1)))
    assert (outcome["lost"], outcome["doubled"], outcome["kills"]) == (0, 0, 2)
    assert outcome["table_lines"] >= outcome["lines"] == 8000
