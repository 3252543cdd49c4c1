"""What no extra is for works without the extras; the rest says which one it needs."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.processes import free_port
from tests.support.without_modules import EXTRAS, command_without

SERVICES = {
    "s2": (("h11", "h2", "google"), "s2://127.0.0.1:1/shop-logs/events"),
    "iggy": (("mmh3", "xxhash"), "iggy://127.0.0.1:1/shop/events"),
}
"""The modules that a service needs, and an address of it."""


def needs(service: str) -> str:
    return f"which is not installed: pip install 'logdrive[{service}]'"


def run(*arguments: str, without: Sequence[str] = EXTRAS, code: int = 0) -> str:
    done = subprocess.run(
        command_without(without, *arguments),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    output = done.stdout + done.stderr
    assert done.returncode == code, output
    assert "Traceback" not in output
    return output


@pytest.fixture
def port() -> int:
    return free_port()


def receiver_toml(place: Path, port: int, uri: str) -> str:
    path = place / "receiver.toml"
    path.write_text(f'[listen]\naddress = "127.0.0.1:{port}"\ntls = "off"\n[sink]\nuri = "{uri}"\n')
    return str(path)


def store_toml(place: Path, service: str) -> str:
    path = place / "store.toml"
    path.write_text(
        f'[store]\npath = "{place}/store"\n'
        f'[listen.pravega]\naddress = "127.0.0.1:{free_port()}"\n'
        f'[listen.{service}]\naddress = "127.0.0.1:{free_port()}"\n'
    )
    return str(path)


@pytest.fixture
def receiver(tmp_path: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    config = receiver_toml(tmp_path, port, f"file://{tmp_path}/store#logs/events")
    with subprocess.Popen(
        command_without(EXTRAS, "receiver", "run", "--config", config),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


def test_every_command_has_its_help() -> None:
    help_ = run("help")
    for command in ("agent ship", "receiver run", "store cat", "pipeline run", "demo"):
        assert f"Usage: logdrive {command}" in help_


def test_a_receiver_with_its_own_store_is_checked(tmp_path: Path, port: int) -> None:
    config = receiver_toml(tmp_path, port, f"file://{tmp_path}/store#logs/events")
    assert "will be made in" in run("receiver", "check", "--config", config)


def test_a_receiver_with_its_own_store_runs(receiver: subprocess.Popen[str], port: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and receiver.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.05)
    receiver.send_signal(signal.SIGTERM)
    _, output = receiver.communicate(timeout=30)
    assert receiver.returncode == 0, output


@pytest.mark.parametrize("service", SERVICES)
def test_a_receiver_names_the_extra_of_its_sink(tmp_path: Path, port: int, service: str) -> None:
    modules, uri = SERVICES[service]
    config = receiver_toml(tmp_path, port, uri)
    assert needs(service) in run("receiver", "run", "--config", config, without=modules, code=2)
    assert needs(service) in run("receiver", "check", "--config", config, without=modules, code=1)


@pytest.mark.parametrize("service", SERVICES)
def test_a_store_names_the_extra_of_its_face(tmp_path: Path, service: str) -> None:
    modules, _ = SERVICES[service]
    config = store_toml(tmp_path, service)
    output = run("store", "run", "--config", config, without=modules, code=2)
    assert needs(service) in output
    assert f"{config}: listen.{service}.address = 127.0.0.1:" in output


@pytest.mark.parametrize("service", SERVICES)
def test_a_receiver_names_the_extra_of_its_face(tmp_path: Path, port: int, service: str) -> None:
    modules, _ = SERVICES[service]
    config = receiver_toml(tmp_path, port, f"file://{tmp_path}/store#logs/events")
    with open(config, "a") as file:
        file.write(f'[listen.{service}]\naddress = "127.0.0.1:{free_port()}"\n')
    checked = run("receiver", "check", "--config", config, without=modules, code=1)
    (fault,) = (line for line in checked.splitlines() if line.startswith("NOT OK"))
    assert f"listen.{service}.address: " in fault
    assert needs(service) in fault
    output = run("receiver", "run", "--config", config, without=modules, code=2)
    assert needs(service) in output
    assert f"{config}: listen.{service}.address = 127.0.0.1:" in output


@pytest.mark.parametrize("service", SERVICES)
def test_commands_name_the_extra_of_an_address(tmp_path: Path, service: str) -> None:
    modules, uri = SERVICES[service]
    assert needs(service) in run("store", "ls", uri, without=modules, code=2)
    assert needs(service) in run("store", "cat", uri, without=modules, code=2)
    options = ("--from", uri, "--to", str(tmp_path / "tables"), "--once")
    assert needs(service) in run("pipeline", "run", *options, without=modules, code=2)


@pytest.mark.parametrize(
    "arguments",
    [
        "run",
        "run --config config/pipeline.toml",
        "run --from file:///store#a/b --to {} --start 24h",
        "backfill --from file:///store#a/b --to {}",
        "silver {} --once",
        "rebuild {} --table silver",
        "rebuild {} --table gold",
        "rebuild {} --table bronze --from file:///store#a/b",
        "audit {}",
        "cat {} a",
        "erase {} --where source=a",
        "formats {}/a.log",
        "gold {}",
        "publish {} {}/bucket",
        "replay {} --to file:///store#a/b",
        "report {} --out {}/report.html",
    ],
)
def test_each_command_of_the_pipeline_names_the_extra(tmp_path: Path, arguments: str) -> None:
    (tmp_path / "a.log").write_text("line\n")
    words = arguments.replace("{}", str(tmp_path)).split()
    said = run("pipeline", *words, code=1)
    assert "the pipeline needs deltalake, jinja2, numpy, pyarrow" in said
    assert "pip install 'logdrive[spark]'" in said
