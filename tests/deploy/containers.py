"""Containers without a daemon and without a registry: buildah builds, podman and runc run.

The base image is a Debian with its own Python, made once by debootstrap and kept in
~/.cache/logdrive-peers.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import need_program, unavailable

ROOT = Path(__file__).parents[2]
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "logdrive-peers"
_BASE = _CACHE / "debian-12-python.tar"
_PACKAGES = "python3-minimal,python3-venv,ca-certificates"
_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
_LIMITS = ("--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096")


def need_containers() -> None:
    """Go on only where containers can be built and run."""
    if os.geteuid() != 0:
        unavailable("containers are built here by root alone")
    for program in ("buildah", "podman", "runc", "debootstrap"):
        need_program(program)


class Containers:
    """Images and containers below one directory; `close` ends and removes them."""

    def __init__(self, directory: Path) -> None:
        self._storage = ("--root", str(directory / "store"), "--runroot", str(directory / "run"))
        self._environment = os.environ | {"STORAGE_DRIVER": "vfs", "TMPDIR": str(directory)}
        self._directory = directory
        self._running: list[str] = []

    def build_agent(self) -> str:
        """Build the agent's image of this tree; return its name."""
        base = self._directory / "base"
        base.mkdir()
        shutil.copy(_base(), base / "root.tar")
        # registries are asked with the host's authorities, which may be those of a proxy
        shutil.copy(_AUTHORITIES, base / "authorities.crt")
        (base / "pip.conf").write_text(f"[global]\ncert = {_AUTHORITIES}\n")
        (base / "Containerfile").write_text(
            "FROM scratch\nADD root.tar /\n"
            f"COPY authorities.crt {_AUTHORITIES}\nCOPY pip.conf /etc/pip.conf\n"
        )
        self._build("localhost/base", str(base))
        (base / "root.tar").unlink()
        image = "localhost/logdrive-agent"
        containerfile = str(ROOT / "deploy" / "container" / "Containerfile")
        bases = ("--build-arg", "BASE=localhost/base", "--build-arg", "BUILD_BASE=localhost/base")
        self._build(image, str(ROOT), "--file", containerfile, *bases)
        return image

    def _build(self, image: str, context: str, *options: str) -> None:
        self._call(
            *("buildah", *self._storage, "build", "--isolation", "chroot", "--network=host"),
            *("--layers=false", "--pull=never", *options, "-t", image, context),
        )

    def size_of(self, image: str) -> int:
        """Return the bytes of an image, its base included."""
        return int(self._podman("image", "inspect", "--format", "{{.Size}}", image))

    def run(
        self,
        image: str,
        *,
        environment: Mapping[str, str],
        volumes: Sequence[str],
        arguments: Sequence[str] = (),
        options: Sequence[str] = (),
    ) -> str:
        """Start a container as a cluster that trusts nobody would; return its id.

        Its root is read-only, it has no capability, and the host's network.
        """
        given = [f"--env={key}={value}" for key, value in environment.items()]
        mounted = [f"--volume={volume}" for volume in volumes]
        guarded = ("--read-only", "--cap-drop=all", "--security-opt=no-new-privileges")
        identity = self._podman(
            *("run", "--detach", "--network=host", *_LIMITS, *guarded, *given, *mounted),
            *(*options, image, *arguments),
        ).strip()
        self._running.append(identity)
        return identity

    def await_hearing(self, identity: str) -> None:
        """Wait until a SIGTERM to the container's process is handled, or waits to be.

        The kernel drops it before: for some 0.1 s, while its interpreter starts.
        """
        status = Path(
            "/proc", self._podman("inspect", "--format", "{{.State.Pid}}", identity).strip()
        )
        mask = 1 << (signal.SIGTERM - 1)
        until = time.monotonic() + 20
        while not any(
            int(line.split()[1], 16) & mask
            for line in (status / "status").read_text().splitlines()
            if line.startswith(("SigBlk:", "SigCgt:"))
        ):
            assert time.monotonic() < until, self.said(identity)
            time.sleep(0.01)

    def stop(self, identity: str, seconds: int = 60) -> int:
        """Send SIGTERM, and SIGKILL after *seconds*; return the exit status."""
        self._podman("stop", "--time", str(seconds), identity)
        return int(self._podman("inspect", "--format", "{{.State.ExitCode}}", identity))

    def kill(self, identity: str) -> None:
        """Send SIGKILL."""
        self._podman("kill", "--signal", "KILL", identity)

    def said(self, identity: str) -> str:
        """Return what a container wrote to its standard output and error."""
        return self._podman("logs", identity)

    def close(self) -> None:
        """End and remove all containers."""
        for identity in self._running:
            self._podman("rm", "--force", "--time", "0", identity)

    def _podman(self, *arguments: str) -> str:
        return self._call(
            *("podman", *self._storage, "--cgroup-manager=cgroupfs", "--runtime=runc", *arguments)
        )

    def _call(self, *command: str) -> str:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=280,
            env=self._environment,
        )
        assert done.returncode == 0, f"{json.dumps(command)}\n{done.stdout}{done.stderr}"[-6000:]
        return done.stdout + (done.stderr if "logs" in command else "")


def _base() -> Path:
    """Return the archive of a small Debian with Python; it is made if there is none."""
    if _BASE.exists():
        return _BASE
    _CACHE.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="debian-", dir=_CACHE))
    try:
        command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm"]
        done = subprocess.run(
            [*command, str(made / "root"), *_mirror()],
            check=False,
            capture_output=True,
            text=True,
            timeout=280,
        )
        if done.returncode:
            unavailable(f"debootstrap failed: {(done.stdout + done.stderr)[-1000:]}")
        archive = made / "root.tar"
        left_out = ("./dev/*", "./proc/*", "./var/cache/apt", "./var/lib/apt/lists/*")
        options = [
            f"--exclude={path}" for path in (*left_out, "./usr/share/doc", "./usr/share/man")
        ]
        subprocess.run(
            ["tar", "-C", str(made / "root"), *options, "-cf", str(archive), "."], check=True
        )
        archive.replace(_BASE)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return _BASE


def _mirror() -> list[str]:
    """Return the mirror that this machine's own packages come from; none where that is unknown."""
    sources = Path("/etc/apt/sources.list.d/debian.sources")
    for line in sources.read_text().splitlines() if sources.exists() else ():
        name, _, value = line.partition(":")
        if name == "URIs":
            mirror = value.split()[0]
            if mirror.startswith("mirror+file:"):
                mirror = Path(mirror.removeprefix("mirror+file:")).read_text().split()[0]
            return [mirror]
    return []
