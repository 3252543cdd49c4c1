"""Histories of delivery.md §7 about where to go on: alike lives, first starts, clones, snapshots,
renewed certificates (2, 4, 5, 21).
"""

import asyncio
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from logdrive.net.certificates import issue_authority, issue_certificate
from logdrive.net.identity import identity_of
from tests.receiver.world import in_virtual_time
from tests.simulation.scenarios.scene import gaps_of, lines, scene

HEADER = b"#Version: 1.0, the same in every life\n"


@in_virtual_time
async def test_history_02_copytruncated_and_its_checkpoint_lost() -> None:
    """No byte of a second life is taken for one of the first, with the checkpoint lost (G3, D4).

    A file with a constant header is shipped, copytruncated, shipped for a while, and outgrows its
    first life meanwhile. A hundredth of the size, the same places.
    """
    async with scene() as world:
        first = world.append("a", HEADER + lines(0, 7000, "first"))
        await world.settled()
        world.applications.copytruncate("a", seed=1)
        second = world.append("a", HEADER + lines(0, 2000, "second"))
        await world.settled()
        world.agent.forget(power=False, down=1.0)
        world.append("a", lines(2000, 7000, "second"))
        verdict = await world.rest()
        assert [
            (source.bytes, source.ended)
            for source in sorted(verdict.by_source, key=lambda source: source.bytes)
        ] == [
            (len(first.data), "truncated"),
            (len(second.data), None),
        ]
        assert not verdict.lost_bytes


@in_virtual_time
async def test_history_02_truncated_while_the_agent_is_away_and_its_checkpoint_lost() -> None:
    """A truncation that was not seen: the first life stays open, the second is another count."""
    async with scene() as world:
        first = world.append("a", HEADER + lines(0, 1000, "first"))
        await world.settled()
        world.agent.forget(power=False, down=5.0)
        world.applications.truncate("a", seed=1)
        second = world.append("a", HEADER + lines(0, 1200, "second"))
        verdict = await world.rest()
        assert sorted((source.bytes, source.state) for source in verdict.by_source) == [
            (len(first.data), "open"),
            (len(second.data), "open"),
        ]


@pytest.mark.parametrize("seconds", [0.02, 2.0])
@in_virtual_time
async def test_history_04_from_the_end_killed_before_anything_was_shipped(seconds: float) -> None:
    """`start = "end"` holds across a kill before the first run was sent.

    Lines after the first look are shipped; what was there before is a gap `not_wanted`, to the byte
    (P2).
    """
    async with scene(start="end") as world:
        await world.down(world.receiver)
        await world.down(world.agent)
        # this start found nothing and was not the first one
        world.agent.disk.remove("/state/checkpoint.json")
        skipped = lines(0, 100)
        life = world.append("a", skipped + b"half a li")
        short = world.append("short", b"no line yet")
        world.agent.start()
        await asyncio.sleep(seconds)
        world.append("a", b"ne\n" + lines(100, 5))
        await asyncio.sleep(seconds)
        await world.down(world.agent)
        world.append("a", lines(105, 5))
        world.append("short", b", now it is\n")
        later = world.append("later", lines(0, 5))
        world.agent.start()
        world.receiver.start()
        verdict = await world.rest()
        by_path = {source.path: source for source in verdict.by_source}
        assert gaps_of(by_path["/logs/a.log"]) == [(0, len(skipped), "not_wanted", True)]
        assert by_path["/logs/a.log"].kept[0][0] == len(skipped)
        assert [by_path[f"/logs/{whole.name}"].bytes for whole in (short, later)] == [
            len(short.data),
            len(later.data),
        ]
        assert by_path["/logs/a.log"].bytes == len(life.data) - len(skipped)
        assert verdict.complete


@in_virtual_time
async def test_history_05_two_clones_with_one_certificate_and_one_template_file() -> None:
    """Each line of two clones arrives once, though both name their sources alike (P1, D4).

    They are made from one image, with template file, agent id and certificate.
    """
    async with scene(agents=2) as world:
        for agent in world.agents:
            agent.pose_as("web")
            await world.down(agent)
        one, other = world.agents
        template = HEADER + lines(0, 50, "template")
        one.applications.append("a", template)
        other.set_back(one.disk.killed())
        other.applications.found()
        one.applications.append("a", lines(0, 500, "one"))
        other.applications.append("a", lines(0, 800, "other"))
        one.start()
        await world.settled()
        other.start()
        for number in range(20):
            one.applications.append("a", lines(1000 + number, 1, "one"))
            other.applications.append("a", lines(1000 + number, 1, "other"))
            await asyncio.sleep(1)
        verdict = await world.rest()
        assert sorted(source.bytes for source in verdict.by_source) == sorted(
            len(host.applications.lives[0].data) for host in world.agents
        )
        assert verdict.complete


@in_virtual_time
async def test_history_05_two_clones_that_have_nothing_but_the_template_yet() -> None:
    """Both clones ship the template before either writes a line: they share a source until they
    differ (P1, D4).
    """
    async with scene(agents=2) as world:
        one, other = world.agents
        for agent in world.agents:
            agent.pose_as("web")
            await world.down(agent)
        one.applications.append("a", HEADER + lines(0, 50, "template"))
        other.set_back(one.disk.killed())
        other.applications.found()
        one.start()
        other.start()
        await asyncio.sleep(10)
        one.applications.append("a", lines(0, 300, "one"))
        # as long, so that only the check tells
        other.applications.append("a", lines(0, 300, "two"))
        verdict = await world.rest()
        assert verdict.complete


@in_virtual_time
async def test_history_05_a_host_restored_from_a_snapshot() -> None:
    """New lines of a host restored from a snapshot are not taken for those stored (P1, D4).

    Checkpoint and log file are those of before; the new lines are at the same positions.
    """
    async with scene() as world:
        world.append("a", lines(0, 100))
        await world.settled()
        await asyncio.sleep(3)
        snapshot = world.agent.disk.killed()
        gone = world.append("a", lines(100, 100, "gone"))
        await world.settled()
        world.agent.set_back(snapshot)
        world.applications.found()
        new = world.append("a", lines(100, 300, "new "))
        verdict = await world.rest()
        assert sorted(source.bytes for source in verdict.by_source) == sorted(
            [len(gone.data), len(new.data)]
        )
        assert verdict.complete


@in_virtual_time
async def test_history_21_a_certificate_renewed_with_its_names_in_another_order() -> None:
    """Sources stay the same if a certificate is renewed with its names in another order (D6).

    The checkpoint is lost, too.
    """
    names = ["b.example", "a.example", "c.example"]
    before, after = _identity(names), _identity(sorted(names))
    async with scene() as world:
        await world.down(world.agent)
        world.agent.identity = before
        world.agent.start()
        life = world.append("a", lines(0, 100))
        await world.settled()
        world.agent.identity = after
        world.agent.forget(power=False, down=1.0)
        world.append("a", lines(100, 100))
        verdict = await world.rest()
        (source,) = verdict.by_source
        assert source.bytes == len(life.data)


def _identity(names: list[str]) -> str:
    now = datetime.now(UTC)
    issued = issue_certificate(
        issue_authority("CA", now=now, days=1),
        names[0],
        names,
        usage=ExtendedKeyUsageOID.CLIENT_AUTH,
        now=now,
        days=1,
    )
    return identity_of(x509.load_pem_x509_certificate(issued.certificate_pem))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("sent", [False, True])
@in_virtual_time
async def test_history_04_from_the_end_and_the_checkpoint_is_lost_later(
    sent: bool, shared: bool
) -> None:
    """With `start = "end"`, files that came after the first run arrive whole, and once (P2).

    The checkpoint is lost before or after their first lines are sent: the store knows that this
    agent was here before. With a shared store another receiver may be asked.
    """
    async with scene(start="end", shared=shared, receivers=1 + shared, balanced=shared) as world:
        await world.down(world.agent)
        world.agent.disk.remove("/state/checkpoint.json")
        first = world.append("a", lines(0, 10))
        if shared:
            world.balance("receiver1")
        world.agent.start()
        await world.settled()
        later = world.append("later", lines(0, 30)) if sent else None
        await world.settled()
        world.agent.forget(power=False, down=2.0)
        if shared:
            world.balance("receiver2")
        await asyncio.sleep(1)
        later = world.append("later", lines(30, 30))
        world.append("a", lines(10, 5))
        verdict = await world.rest()
        assert verdict.complete
        assert {(source.path, source.bytes, source.kept[0][0]) for source in verdict.by_source} == {
            ("/logs/a.log", len(first.data) - 120, 120),
            ("/logs/later.log", len(later.data), 0),
        }
