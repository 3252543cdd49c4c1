"""What a program sets up on its host before it begins."""

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import resource
from logdrive.cli.runtime import raise_open_files_limit
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 256))
print(raise_open_files_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_programs_may_open_as_many_files_as_the_machine_allows() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == ["256", "256", "256"]


_CONNECTED = """
import asyncio, resource
from logdrive.cli.runtime import run_program
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
async def serve(stream):
    await asyncio.Event().wait()
async def program(machine):
    listener = await machine.transport.listen("127.0.0.1", 0, None, serve)
    _, port = listener.address
    peers = await asyncio.create_subprocess_exec(
        "python3", "-c",
        "import socket, sys; peers = [socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
        " for _ in range(56)]; print('connected', flush=True); sys.stdin.read()",
        str(port), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )
    await peers.stdout.readline()
    await asyncio.sleep(0.2)
    open("/dev/null").close()
    print("room for a file")
    peers.stdin.close()
    await listener.close()
    await peers.wait()
run_program(program)
"""


def test_connections_leave_files_to_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CONNECTED], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "limit=32" in done.stdout
    assert done.stdout.endswith("room for a file\n")


_STOPPED = """
import asyncio, os, signal, sys
from logdrive.cli.runtime import run_program
async def program(machine):
    for name in sys.argv[1:]:
        os.kill(os.getpid(), getattr(signal, name))
        await asyncio.sleep(0.05)
        print(machine.stop.is_set(), end=" ")
run_program(program)
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_that_ends_a_service_or_closes_its_terminal_lets_it_drain(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STOPPED, name],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split() == ["True"]


def test_under_nohup_a_closed_terminal_stops_nothing() -> None:
    ignoring = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{_STOPPED}"
    done = subprocess.run(
        [sys.executable, "-c", ignoring, "SIGHUP", "SIGTERM"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    ("arguments", "ends"), [(["agent", "run"], False), (["agent", "status"], True)]
)
def test_a_hangup_does_not_end_an_agent_that_only_begins(arguments: list[str], ends: bool) -> None:
    beginning = (
        "import os, signal, sys\n"
        "from logdrive.cli import main\n"
        "main.cli.main = lambda **_: os.kill(os.getpid(), signal.SIGHUP)\n"
        "main.main()"
    )
    done = subprocess.run([sys.executable, "-c", beginning, *arguments], check=False, timeout=30)
    assert done.returncode == (-signal.SIGHUP if ends else 0)


@pytest.mark.parametrize("nohup", [False, True])
def test_a_program_that_reloads_is_asked_to_by_each_hangup_and_goes_on(nohup: bool) -> None:
    reloading = _STOPPED.replace("run_program(program)", "run_program(program, reloads=True)")
    reloading = reloading.replace(
        'print(machine.stop.is_set(), end=" ")',
        "print(machine.hangup.is_set(), machine.stop.is_set()); machine.hangup.clear()",
    )
    if nohup:
        reloading = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{reloading}"
    done = subprocess.run(
        [sys.executable, "-c", reloading, "SIGHUP", "SIGHUP", "SIGTERM"],
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    assert done.stdout.splitlines() == ["True False", "True False", "False True"]
