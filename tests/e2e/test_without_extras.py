"""What no extra is for works without the extras; the rest says which one it needs."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.processes import free_port
from logdrive.pipeline.tables.installed import TABLES_PACKAGES
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.storing import store
from tests.support.without_modules import EXTRAS, command_without

SERVICES = {
    "s2": (("h11", "h2", "google"), "s2://127.0.0.1:1/shop-logs/events"),
    "iggy": (("mmh3", "xxhash"), "iggy://127.0.0.1:1/shop/events"),
}
"""The modules that a service needs, and an address of it."""

BEYOND_TABLES = [name for name in EXTRAS if name not in TABLES_PACKAGES]
"""The modules that are not there where the extra `tables` is the only one."""


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


def run_tables(place: Path, command: str, *, code: int = 0) -> str:
    """Return what the *command* of the pipeline prints where Spark is not installed."""
    words = command.format(tables=place / "tables", place=place).split()
    return run("pipeline", *words, without=BEYOND_TABLES, code=code)


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
    needed = "deltalake, jinja2, numpy, prometheus_client, pyarrow"
    assert f"the pipeline needs {needed}: pip install 'logdrive[tables]'" in said


@pytest.fixture
def address(tmp_path: Path) -> str:
    """A stream with nine lines of JSON."""
    segment = Segment()
    send(segment, "a", b'{"level":"info","id":7}\n' * 9)
    return store(tmp_path / "store", segment)


def test_the_pipeline_needs_no_spark_on_one_machine(tmp_path: Path, address: str) -> None:
    filled = run_tables(tmp_path, f"run --from {address} --to {{tables}} --once --silver")
    assert "9 events" in filled
    assert "silver: 9 rows" in filled
    assert "0 rows" in run_tables(tmp_path, "silver {tables} --once")
    assert "9 lines" in run_tables(tmp_path, "gold {tables} --once")
    assert "complete: 9 lines" in run_tables(tmp_path, "audit {tables}")
    run_tables(tmp_path, "report {tables} --out {place}/report.html")
    assert (tmp_path / "report.html").exists()
    rebuilt = run_tables(tmp_path, f"rebuild {{tables}} --table bronze --from {address}")
    assert "9 events read" in rebuilt
    assert "nothing to fill" in run_tables(tmp_path, f"backfill --from {address} --to {{tables}}")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("run --from file:///s#a/b --to {tables} --master local[1]", "--master"),
        ("run --config {place}/pipeline.toml", "spark.master in {place}/pipeline.toml"),
        ("silver {place} --once --master local[1]", "--master"),
    ],
)
def test_a_master_needs_spark(tmp_path: Path, command: str, option: str) -> None:
    (tmp_path / "pipeline.toml").write_text(
        '[pipeline]\nfrom = "file:///s#a/b"\nto = "/t"\n[spark]\nmaster = "local[1]"\n'
    )
    said = run_tables(tmp_path, command, code=1)
    option = option.format(place=tmp_path)
    assert f"{option} needs pandas, pyspark: pip install 'logdrive[spark]'" in said


def test_an_audit_by_spark_and_variant_need_spark(tmp_path: Path, address: str) -> None:
    run_tables(tmp_path, f"run --from {address} --to {{tables}} --once --silver")
    said = run_tables(tmp_path, "audit {tables} --engine spark", code=1)
    assert "--engine spark needs pandas, pyspark: pip install 'logdrive[spark]'" in said

    (tmp_path / "silver.toml").write_text('[silver]\nrest = "variant"\n')
    anew = "rebuild {tables} --table silver --config {place}/silver.toml"
    said = run_tables(tmp_path, anew, code=1)
    assert "rest = \"variant\" needs pyspark: pip install 'logdrive[spark]'" in said
    assert "json" in run_tables(tmp_path, f"{anew} --dry-run")  # the old tables are still there
