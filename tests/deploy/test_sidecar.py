"""The agent's image beside an application: two containers that share a volume of logs.

Both are real: built by buildah, run by podman and runc with a read-only root, as another user than
root, without capabilities.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.containers import Containers, need_containers
from tests.support.installation import Installation
from tests.support.ledger import Ledger

pytestmark = [pytest.mark.container, pytest.mark.process]

USER = 65532

APPLICATION = """\
import os, signal, sys, time
stopped = []
signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
log, number = open("/logs/app.log", "a"), 0
while not stopped:
    number += 1
    print(f"line {number} of the application", file=log, flush=True)
    if number % 400 == 0:
        os.rename("/logs/app.log", f"/logs/app.log.{number // 400}")
        log = open("/logs/app.log", "a")
    time.sleep(0.002)
log.write("the last words, without a newline")
log.flush()
"""


@pytest.fixture(scope="module")
def containers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containers]:
    need_containers()
    made = Containers(tmp_path_factory.mktemp("containers"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def image(containers: Containers) -> str:
    return containers.build_agent()


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates)
    os.chown(installation.logs, USER, USER)
    yield installation
    installation.close()


@pytest.fixture
def tls(system: Installation) -> Path:
    """The agent's certificates as a secret is mounted, readable by its user alone."""
    secret = system.root / "secret"
    secret.mkdir()
    for ours, theirs in (
        ("ca.pem", "ca.crt"),
        ("client.pem", "tls.crt"),
        ("client.key", "tls.key"),
    ):
        (secret / theirs).write_bytes((system.tls / ours).read_bytes())
        os.chown(secret / theirs, USER, USER)
        (secret / theirs).chmod(0o400)
    return secret


def start_agent(containers: Containers, image: str, system: Installation, tls: Path) -> str:
    """Start the agent, which is configured by its environment alone."""
    return containers.run(
        image,
        environment={
            "LOGDRIVE_AGENT__ID": "pod-1",
            "LOGDRIVE_AGENT__HOST": "shop",
            "LOGDRIVE_OUTPUT__HOSTS": f"127.0.0.1:{system.port}",
            "LOGDRIVE_OUTPUT__TLS__SERVER_NAME": "localhost",
            "LOGDRIVE_INPUT__0__FIELDS": '{ service = "shop" }',
        },
        volumes=[f"{system.logs}:/logs:ro", f"{tls}:/etc/logdrive/tls:ro"],
    )


def start_application(containers: Containers, image: str, system: Installation) -> str:
    return containers.run(
        image,
        environment={},
        volumes=[f"{system.logs}:/logs"],
        options=[f"--user={USER}", "--entrypoint=/usr/bin/python3"],
        arguments=["-c", APPLICATION],
    )


def await_lines(system: Installation, files: int) -> None:
    until = time.monotonic() + 60
    while len(list(system.logs.glob("app.log*"))) < files:
        assert time.monotonic() < until, "the application writes nothing"
        time.sleep(0.1)


def written(system: Installation) -> set[bytes]:
    return {path.read_bytes() for path in system.logs.glob("app.log*")}


def delivered(ledger: Ledger) -> dict[bytes, list[tuple[int, int, str]]]:
    return {data: source.gaps for data, source in ledger.by_data().items() if data}


def test_the_last_words_of_a_pod_are_sent_before_it_ends__P3(
    containers: Containers, image: str, system: Installation, tls: Path
) -> None:
    receiver = system.receiver()
    agent = start_agent(containers, image, system, tls)
    application = start_application(containers, image, system)
    await_lines(system, 3)
    assert containers.stop(application) == 0, containers.said(application)
    assert containers.stop(agent) == 0, containers.said(agent)
    assert receiver.terminate() == 0, receiver.said()
    assert any(data.endswith(b"the last words, without a newline") for data in written(system))
    assert delivered(system.ledger()) == {key: [] for key in written(system)}
    for source in system.ledger().by_data().values():
        assert source.attributes["fields"] == {"service": "shop"}
        assert source.attributes["host"] == "shop"


def test_a_killed_sidecar_without_a_volume_for_its_state_goes_on_where_it_was__D5(
    containers: Containers, image: str, system: Installation, tls: Path
) -> None:
    """Nothing of the first container is left: the receiver knows every position."""
    receiver = system.receiver()
    agent = start_agent(containers, image, system, tls)
    application = start_application(containers, image, system)
    await_lines(system, 2)
    containers.kill(agent)
    await_lines(system, 3)
    assert containers.stop(application) == 0, containers.said(application)
    agent = start_agent(containers, image, system, tls)
    containers.await_hearing(agent)  # it has read no file yet
    assert containers.stop(agent) == 0, containers.said(agent)
    assert receiver.terminate() == 0, receiver.said()
    assert delivered(system.ledger()) == {key: [] for key in written(system)}


def test_the_agent_adds_less_than_100_MB_to_its_base(containers: Containers, image: str) -> None:
    assert containers.size_of(image) - containers.size_of("localhost/base") < 100_000_000
