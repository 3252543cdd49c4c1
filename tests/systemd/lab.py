"""A real systemd as the first process of a container, for units to be started, killed and stopped.

The container is systemd-nspawn's: its /usr is the host's, read-only, all else is in memory, and
its network is its own loopback. Python, what is installed for it, and this tree are bound to /opt,
where the units look for logdrive. It needs root, and boots in about a second.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.conftest import need_program, unavailable

TREE: Final = Path(__file__).parents[2]
_BOOT_SECONDS: Final = 60.0
_COMMAND_SECONDS: Final = 60.0
_CGROUPS: Final = [Path("/sys/fs/cgroup") / name for name in ("systemd", "unified", ".")]
_START: Final = """\
#!/bin/sh
exec env PYTHONPATH=/opt/tree:/opt/site PYTHONDONTWRITEBYTECODE=1 {python} -m logdrive.cli.main "$@"
"""
_TARGET: Final = "[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n"
# a host's /dev/null may be something else, with which no container starts
_MOUNTS: Final = """\
mknod -m 666 "$1/null" c 1 3 && mount --bind "$1/null" /dev/null || exit 1
shift
exec "$@"
"""


class Lab:
    """A container that runs. `run` is a command inside of it."""

    def __init__(self, leader: int) -> None:
        self._leader = leader  # process id of its systemd

    def run(self, *command: str, check: bool = True, text: str | None = None) -> str:
        """Run *command* inside and return what it printed; with *text* on its standard input."""
        done = subprocess.run(
            ["nsenter", "-t", str(self._leader), "-a", "--", *command],
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
            input=text or "",
        )
        if check and done.returncode:
            raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def write(self, path: str, text: str, *, owner: str = "root", mode: str = "0644") -> None:
        """Append *text* to the file *path* inside."""
        self.run("mkdir", "-p", os.path.dirname(path))
        self.run("tee", "-a", path, text=text)
        self.run("chown", owner, path)
        self.run("chmod", mode, path)

    def show(self, unit: str, name: str) -> str:
        """Return a property of *unit*."""
        return self.run("systemctl", "show", unit, "-p", name, "--value").strip()

    def journal(self, unit: str, *options: str) -> str:
        """Return what *unit* logged."""
        return self.run("journalctl", "-u", unit, "-o", "cat", "--no-pager", "-q", *options)

    def kill(self, unit: str, number: signal.Signals) -> int:
        """Send a signal to the main process of *unit*; return its id."""
        process = int(self.show(unit, "MainPID"))
        assert process > 1, f"{unit} does not run:\n{self.journal(unit)}"
        self.run("kill", f"-{int(number)}", str(process))
        return process

    def wait(self, met: Callable[[], bool], what: str, unit: str = "") -> None:
        """Wait until *met*; fails with *what*, and with what *unit* logged, if it never is."""
        until = time.monotonic() + _COMMAND_SECONDS
        while not met():
            assert time.monotonic() < until, f"{what}\n{self.journal(unit) if unit else ''}"
            time.sleep(0.1)


def need_lab() -> None:
    """Go on only where a lab can be made."""
    for program in ("systemd-nspawn", "nsenter", "unshare"):
        need_program(program)
    if os.geteuid() != 0:
        unavailable("only root can boot a container")


@contextlib.contextmanager
def boot_lab(directory: Path, files: Mapping[str, Path]) -> Iterator[Lab]:
    """Boot a container with the units in *directory*/units, and *files* at these paths inside."""
    _prepare(directory)
    binds = {
        "/etc/systemd/system": directory / "units",
        "/opt/logdrive/bin": directory / "bin",
        "/opt/tree": TREE,
        "/opt/site": Path(sysconfig.get_paths()["purelib"]),
        **files,
    }
    if not sys.base_prefix.startswith("/usr"):
        binds["/opt/python"] = Path(sys.base_prefix)
    with _own_cgroup(f"lab{os.getpid()}"), open(directory / "console", "wb") as console:
        boot = subprocess.Popen(
            [
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                _MOUNTS,
                "sh",
                str(directory),
                *_nspawn(binds),
            ],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
            start_new_session=True,
        )
        leader = 0
        try:
            leader = _wait_for_boot(boot, directory / "console")
            yield Lab(leader)
        finally:
            _power_off(boot, leader)


def _prepare(directory: Path) -> None:
    """Write the program that units start, and the target that the container boots to."""
    units, programs = directory / "units", directory / "bin"
    units.mkdir(exist_ok=True)
    programs.mkdir()
    (units / "lab.target").write_text(_TARGET)
    (units / "systemd-firstboot.service").symlink_to("/dev/null")
    inside = sys.base_prefix if sys.base_prefix.startswith("/usr") else "/opt/python"
    start = programs / "logdrive"
    start.write_text(_START.format(python=f"{inside}/bin/python3"))
    start.chmod(0o755)


def _nspawn(binds: Mapping[str, Path]) -> list[str]:
    return [
        "systemd-nspawn",
        "--quiet",
        "--register=no",
        "--keep-unit",
        "--volatile=yes",
        "--directory=/",
        f"--machine=lab{os.getpid()}",
        "--private-network",
        *(f"--bind-ro={outside}:{inside}" for inside, outside in binds.items()),
        "--console=pipe",
        "--boot",
        "systemd.unit=lab.target",
    ]


def _wait_for_boot(boot: "subprocess.Popen[bytes]", console: Path) -> int:
    """Return the process id of the container's systemd, once it has booted."""
    until = time.monotonic() + _BOOT_SECONDS
    leader, state = 0, ""
    while state not in ("running", "degraded"):
        if time.monotonic() >= until or boot.poll() is not None:
            said = console.read_text(errors="replace")
            unavailable(f"systemd-nspawn boots no container here: {said}")
        time.sleep(0.05)
        leader = leader or _child_named(boot.pid, "systemd")
        if leader:
            state = subprocess.run(
                ["nsenter", "-t", str(leader), "-a", "--", "systemctl", "is-system-running"],
                capture_output=True,
                text=True,
                timeout=_COMMAND_SECONDS,
                check=False,
            ).stdout.strip()
    assert state == "running", "a unit of the container failed"
    return leader


def _child_named(parent: int, name: str) -> int:
    """Return the id of a child of *parent* that runs the program *name*; 0 without one."""
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == name:
                return int(child)
    return 0


def _power_off(boot: "subprocess.Popen[bytes]", leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        if leader:
            os.kill(leader, signal.SIGRTMIN + 4)  # systemd: poweroff.target
    try:
        boot.wait(timeout=15)
    except subprocess.TimeoutExpired:
        boot.kill()
        boot.wait()


@contextlib.contextmanager
def _own_cgroup(name: str) -> Iterator[None]:
    """Put this process into control groups of its own meanwhile: the container takes over its."""
    moved: list[tuple[Path, Path]] = []
    before = _own_groups()
    for hierarchy in _CGROUPS:
        group = hierarchy / name
        if (hierarchy / "cgroup.procs").exists() and hierarchy in before:
            group.mkdir(exist_ok=True)
            (group / "cgroup.procs").write_text(str(os.getpid()))
            moved.append((group, before[hierarchy]))
    try:
        yield
    finally:
        for group, home in moved:
            (home / "cgroup.procs").write_text(str(os.getpid()))
            for below, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):  # busy: it goes with the machine
                    os.rmdir(below)


def _own_groups() -> dict[Path, Path]:
    """Return the control group of this process in each hierarchy that systemd uses."""
    groups: dict[Path, Path] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for name in [controllers.removeprefix("name=")] if controllers else ["unified", "."]:
            hierarchy = Path("/sys/fs/cgroup") / name
            if hierarchy in _CGROUPS and (hierarchy / "cgroup.procs").exists():
                groups[hierarchy] = hierarchy / path.lstrip("/")
    return groups


def copy_units(directory: Path) -> Path:
    """Return a directory with the project's units, to which drop-ins can be added."""
    units = directory / "units"
    units.mkdir()
    for unit in (TREE / "systemd").glob("*.service"):
        shutil.copy(unit, units)
    return units
