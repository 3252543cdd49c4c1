"""`agent check` reports what a start would do, and changes nothing."""

import asyncio
import errno
import gzip
from pathlib import Path

import msgspec

from agent.check import check_agent
from agent.config.config import AgentConfig
from logdrive.host.disk import SystemDisk
from tests.agent.world import LOG, World, contents, lines
from tests.support.memory.disk import MemoryDisk, MemoryFile
from tests.support.memory.inputs import MemoryBytes, MemoryDatagrams, MemoryInputs
from tests.support.virtual_time import run


def test_each_file_is_listed_with_the_position_from_which_it_would_be_read() -> None:
    async def main() -> None:
        world = World()
        await world.ships(lines(0, 10))
        await world.stop()
        world.write(lines(10, 1))
        world.write(lines(0, 1), "/logs/new.log")
        world.write(b"no end", "/logs/open.log")
        world.settings["input"].append({"paths": ["/none/*.log"]})
        before = world.disk.content("/state/checkpoint.json")
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        assert [(file.path, file.input, file.size, file.plan) for file in checked.files] == [
            (LOG, 0, 132, "from 120: 12 bytes are new"),
            ("/logs/new.log", 0, 12, "from 0, unless the receiver knows it"),
            ("/logs/open.log", 0, 6, "waits until its first line ends, or has 1,024 bytes"),
        ]
        findings = {finding.name: finding for finding in checked.findings}
        assert findings["checkpoint"].ok
        assert findings["reader:5044"].ok
        for name in ("directory", "input[1]"):
            assert (findings[name].ok, findings[name].warn) == (True, True), "it may come later"
        assert "/none" in findings["directory"].detail
        assert world.disk.content("/state/checkpoint.json") == before

    run(main())


def test_a_compressed_file_is_no_text_and_what_becomes_of_it_is_said__G5() -> None:
    async def main() -> list[str]:
        world = World()
        world.disk.now_ns = lambda: world.clock.now_ms() * 1_000_000
        world.write(b"\x1f\x8bold\n", "/logs/old.log.1.gz")
        await world.ships(lines(0, 10))
        await world.clock.sleep(100)
        await world.stop()
        world.write(b"\x1f\x8bnew\n", "/logs/new.log.1.gz")
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        return [file.plan for file in checked.files if file.path.endswith(".gz")]

    new, old = run(main())
    assert "if nothing is known of that, it is sent whole" in new
    assert 'unless nothing was known of it (unknown_compressed = "skip")' in old


def test_a_copy_that_was_recognized_is_said_to_have_nothing_left__G5() -> None:
    async def main() -> list[tuple[str, str]]:
        world = World()
        await world.ships(lines(0, 10))
        world.write(gzip.compress(lines(0, 10)), f"{LOG}.1.gz")
        await world.clock.sleep(300)
        await world.stop()
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        return [(file.path, file.plan) for file in checked.files if file.path != LOG]

    ((path, plan),) = run(main())
    assert path == f"{LOG}.1.gz"
    assert plan.startswith("looked at before: what is in it has been sent")


def test_an_input_whose_files_belong_to_one_before_is_told_so() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 1))
        world.settings["input"].append({"paths": [LOG]})
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        finding = {finding.name: finding for finding in checked.findings}["input[1]"]
        assert not finding.ok
        assert finding.detail.startswith("input[0] has all 1 files that match its paths")
        assert finding.detail.endswith("write this one before")

    run(main())


def test_paths_that_no_file_can_match_are_explained() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 1))
        for path, said in (
            ("/logs/{a,b}.log", "braces stand for themselves"),
            ("/logs", "/logs is a directory: write /logs/**/*"),
            ("/logs/", "/logs/ is a directory: write /logs/**/*"),
            ("/logs/none.log", "no file matches its paths now"),
        ):
            world.settings["input"] = [{"paths": [path]}]
            config = msgspec.convert(world.settings, AgentConfig)
            checked = await check_agent(
                config, disk=world.disk, transport=world.network.host("agent")
            )
            finding = {finding.name: finding for finding in checked.findings}["input[0]"]
            assert said in finding.detail
            assert finding.ok == (said == "no file matches its paths now"), "that may come later"

    run(main())


def test_a_file_with_several_names_is_listed_once(tmp_path: Path) -> None:
    async def main() -> None:
        world, logs = World(), tmp_path / "logs"
        logs.mkdir()
        (logs / "x.log").write_bytes(lines(0, 1))
        (logs / "y.log").hardlink_to(logs / "x.log")
        (logs / "z.log").symlink_to("x.log")
        (logs / "other.log").write_bytes(lines(0, 1))
        world.settings["agent"]["state_dir"] = str(tmp_path / "state")
        world.settings["input"] = [{"paths": [f"{logs}/[ox]*"]}, {"paths": [f"{logs}/[yz]*"]}]
        config = msgspec.convert(world.settings, AgentConfig)
        transport = world.network.host("agent")
        checked = await check_agent(config, disk=SystemDisk(), transport=transport)
        assert [(file.path, file.names) for file in checked.files] == [
            (f"{logs}/other.log", []),
            (f"{logs}/x.log", [f"{logs}/y.log", f"{logs}/z.log"]),
        ]
        finding = {finding.name: finding for finding in checked.findings}["input[1]"]
        assert finding.detail.startswith("input[0] has all 1 files that match its paths")

    run(main())


class _AnothersLogs(MemoryDisk):
    """A disk whose logs may be listed, but not read."""

    def open(
        self,
        path: str,
        *,
        write: bool = False,
        create: bool = False,
        private: bool = False,
        direct: bool = False,
    ) -> MemoryFile:
        if path == LOG and not (write or create):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().open(path, write=write, create=create, private=private, direct=direct)


def test_files_that_the_agent_may_not_read_are_counted() -> None:
    async def main() -> None:
        world, disk = World(), _AnothersLogs(["/logs", "/state"])
        disk.write(LOG, lines(0, 1))
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=disk, transport=world.network.host("agent"))
        (unreadable,) = (finding for finding in checked.findings if finding.name == "files")
        assert unreadable.warn
        assert unreadable.detail.startswith("1 of 1 can't be read")

    run(main())


def test_a_control_socket_that_can_not_be_made_is_a_warning() -> None:
    async def main() -> None:
        world = World()
        for path, warned in (("/none/control.sock", True), ("/logs/control.sock", False)):
            world.settings["control"] = {"socket": path}
            world.write(lines(0, 1))
            config = msgspec.convert(world.settings, AgentConfig)
            checked = await check_agent(
                config, disk=world.disk, transport=world.network.host("agent")
            )
            findings = {finding.name: finding for finding in checked.findings}
            assert ("control.socket" in findings) == warned
            if warned:
                assert findings["control.socket"].warn
                assert findings["control.socket"].detail.startswith("/none/control.sock can't be")

    run(main())


def test_a_state_directory_that_can_not_be_made_is_reported_with_its_remedy() -> None:
    async def main() -> None:
        world = World()
        world.write(lines(0, 1))
        world.disk.write("/state/file", b"")
        world.settings["agent"]["state_dir"] = "/state/file/agent"
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        state_dir = {finding.name: finding for finding in checked.findings}["agent.state_dir"]
        assert not state_dir.ok
        assert state_dir.detail.startswith(
            "/state/file/agent can't be used (Not a directory: /state/file): name a directory"
        )
        world.settings["agent"]["state_dir"] = "/state/agent"
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        assert {finding.name: finding for finding in checked.findings}["agent.state_dir"].ok

    run(main())


def test_each_obstacle_to_a_start_is_a_finding() -> None:
    async def main() -> None:
        world = World(start="end")
        world.write(lines(0, 10))
        world.disk.write("/state/checkpoint.json", b"{")
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        findings = {finding.name: finding for finding in checked.findings}
        assert "can't be read" in findings["checkpoint"].detail
        assert findings["reader:5044"].detail.startswith("connection refused")
        assert checked.files[0].plan == "from 0, unless the receiver knows it", "it was here before"
        assert world.disk.content("/state/checkpoint.json") == b"{"

    run(main())


def test_a_receiver_is_named_with_its_port_and_what_a_check_without_tls_can_not_see__D6() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.settings["output"]["hosts"] = ["reader"]
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        (finding,) = (finding for finding in checked.findings if finding.name == "reader:5044")
        assert finding.detail.startswith(
            "reached, without TLS: if the receiver wants TLS, that shows"
        )

    run(main())


def test_rotated_and_compressed_files_that_the_patterns_miss_or_match_are_warnings() -> None:
    async def main() -> None:
        world = World(
            paths=["/logs/*.log", "/logs/*.gz", "/logs/*.lz4"], exclude=["/logs/app.log.9"]
        )
        await world.reader()
        for name in (
            "app.log",
            "app.log.1",
            "app.log-20261121",
            "app.log.9",
            "app.log.2.gz",
            "app.log.3.lz4",
            "application.log",
            "other.txt",
            "app.log.bak",
        ):
            world.write(lines(0, 2), f"/logs/{name}")
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        warnings = {finding.name: finding.detail for finding in checked.findings if finding.warn}
        assert list(warnings) == ["rotated", "compressed"]
        assert "/logs/app.log-20261121, /logs/app.log.1:" in warnings["rotated"]
        assert warnings["compressed"].startswith("/logs/app.log.3.lz4 would")
        assert all(finding.ok for finding in checked.findings)

    run(main())


def test_sources_that_the_checkpoint_knows_and_no_pattern_covers_are_listed() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        world.write(lines(0, 2))
        world.write(lines(0, 2), "/logs/kept.log")
        world.start()
        await world.settle()
        await world.stop()
        world.settings["input"] = [{"paths": ["/logs/kept.log"]}]
        config = msgspec.convert(world.settings, AgentConfig)
        checked = await check_agent(config, disk=world.disk, transport=world.network.host("agent"))
        (warning,) = [finding for finding in checked.findings if finding.warn]
        assert (warning.name, LOG in warning.detail, "kept.log" in warning.detail) == (
            "checkpoint",
            True,
            False,
        )

    run(main())


def test_sources_of_other_inputs_are_listed_only_where_their_input_is_gone() -> None:
    async def main() -> None:
        world = World()
        await world.reader()
        local = MemoryInputs(world.network.host("agent", identity="dns:agent"))
        pipes = {path: MemoryBytes() for path in ("/run/kept", "/run/gone")}
        local.pipes.update(pipes)
        local.journal.add("a", 1, b"entry", PRIORITY=b"6")
        world.settings |= {
            "input": [],
            "pipe": [{"path": path} for path in pipes],
            "journald": {"journalctl": "no-such-program"},
        }
        world.start(local=local)
        for pipe in pipes.values():
            pipe.write(lines(0, 2))
        await asyncio.sleep(3)
        await world.settle()
        await world.stop()

        async def warnings() -> list[str]:
            config = msgspec.convert(world.settings, AgentConfig)
            transport = world.network.host("agent")
            checked = await check_agent(config, disk=world.disk, transport=transport)
            return [str(finding) for finding in checked.findings if finding.warn]

        assert await warnings() == []
        world.settings["pipe"].pop()
        del world.settings["journald"]
        assert await warnings() == [
            "WARN    checkpoint: it has pipe:/run/gone, which no table names now: what the spool "
            "has of them is sent, and they end",
            f"WARN    checkpoint: it has journald:{'a' * 32}, and there is no [journald] now: they "
            "stay in it, but are not read",
        ]

    run(main())


def test_rotated_while_everything_was_down_and_the_checkpoint_lost__G2() -> None:
    async def main() -> None:
        world = World(paths=["/logs/*.log", "/logs/*.log.[0-9]*"], exclude=["/logs/*.gz"])
        await world.ships(lines(0, 10))
        await world.stop()
        world.write(lines(10, 10))
        world.disk.replace(LOG, f"{LOG}.1")
        world.write(lines(20, 10))
        world.forget()
        world.start()
        await world.settle()
        await world.stop()
        stored = [each for path in (LOG, f"{LOG}.1") for each in world.stored(path)]
        assert sorted(contents(stored)) == [lines(0, 20), lines(20, 10)]

    run(main())


def test_other_inputs_are_shown_with_what_a_start_would_do() -> None:
    async def main() -> None:
        world = World()
        world.write(b"text\n", "/logs/a.txt")
        world.disk.make_directory("/state/spool")
        world.write(b"12345", "/state/spool/log-0")
        world.settings |= {
            "input": [],
            "stdin": {},
            "pipe": [{"path": "/logs/p"}, {"path": "/none/p"}],
            "socket": [{"path": "/logs/a.txt"}],
            "syslog": [{"listen": "[::]", "protocol": "udp"}],
            "journald": {"journalctl": "no-such-program"},
        }
        config = msgspec.convert(world.settings, AgentConfig)
        local = MemoryInputs()
        local.datagrams[":::514"] = MemoryDatagrams()
        checked = await check_agent(
            config, disk=world.disk, transport=world.network.host("agent"), local=local
        )
        found = {finding.name: (finding.ok, finding.detail) for finding in checked.findings}
        kept = "up to 1,073,741,824 bytes wait in the spool"
        assert found["stdin"] == (True, f"it would be read to its end; {kept}")
        assert found["pipe[0]"] == (True, f"/logs/p would be made; {kept}")
        assert not found["pipe[1]"][0]
        assert found["socket[0]"] == (
            False,
            "/logs/a.txt is a file: read it as [[input]], or remove it",
        )
        assert found["syslog[0]"] == (True, f"it would listen at [::]:514, udp; {kept}")
        assert not found["journald"][0]
        assert found["spool"] == (True, "/state/spool takes 5 bytes of the disk")

    run(main())
