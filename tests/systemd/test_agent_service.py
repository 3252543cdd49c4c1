"""The agent's unit under a real systemd: started, reloaded, frozen, killed and stopped.

One container, and one test, as each step goes on where the one before left it.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator

import orjson
import pytest

from tests.systemd.lab import Lab, boot_lab, copy_units, need_lab

pytestmark = pytest.mark.process

AGENT, RECEIVER = "logdrive-agent", "logdrive-receiver"
_USER = "u logdrive - - /var/lib/logdrive /usr/sbin/nologin\nu tenant - - / /usr/sbin/nologin\n"
# soon enough for a test
_SOON = "[Service]\nWatchdogSec=2\nRestartSec=100ms\n"
_AGENT = """\
[agent]
id = "lab"
state_dir = "/var/lib/logdrive-agent"
rescan_seconds = 1.0
[[input]]
paths = ["/var/log/lab/*.log", "/home/*/*.log"]
[output]
hosts = ["127.0.0.1:5044"]
[output.tls]
ca = "/etc/logdrive/tls/ca.pem"
server_name = "localhost"
cert = "/etc/logdrive/tls/client.pem"
key = "${CREDENTIALS_DIRECTORY}/logdrive-agent.key"
[control]
metrics = "127.0.0.1:9600"
"""
_RECEIVER = """\
[listen]
address = "127.0.0.1:5044"
[listen.tls]
ca = "/etc/logdrive/tls/ca.pem"
cert = "/etc/logdrive/tls/server.pem"
key = "/etc/logdrive/tls/server.key"
[sink]
uri = "file:///var/lib/logdrive/store#logs/events"
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    need_lab()
    directory = tmp_path_factory.mktemp("lab")
    units = copy_units(directory)
    (units / f"{AGENT}.service.d").mkdir()
    (units / f"{AGENT}.service.d" / "soon.conf").write_text(_SOON)
    (directory / "users.conf").write_text(_USER)
    tls = directory / "tls"
    subprocess.run(
        [sys.executable, "-m", "logdrive.cli.main", "certs", str(tls), "--name", "localhost"],
        check=True,
        capture_output=True,
        timeout=60,
    )
    with boot_lab(
        directory, {"/etc/sysusers.d/lab.conf": directory / "users.conf", "/opt/tls": tls}
    ) as booted:
        booted.run("mkdir", "-p", "/etc/logdrive")
        booted.run("cp", "-r", "/opt/tls", "/etc/logdrive/tls")
        booted.run("chmod", "0644", "/etc/logdrive/tls/server.key")
        # only root may read it, and the agent's service
        booted.run("mkdir", "-p", "/etc/credstore")
        booted.run("mv", "/etc/logdrive/tls/client.key", "/etc/credstore/logdrive-agent.key")
        booted.run("chmod", "0600", "/etc/credstore/logdrive-agent.key")
        booted.write("/etc/logdrive/agent.toml", _AGENT)
        booted.write("/etc/logdrive/receiver.toml", _RECEIVER)
        booted.run("systemctl", "start", RECEIVER)
        yield booted


def _logdrive(lab: Lab, *arguments: str, check: bool = True) -> str:
    return lab.run("/opt/logdrive/bin/logdrive", *arguments, check=check)


def _delivered(lab: Lab, count: int) -> bool:
    """Return whether this run of the agent has delivered *count* lines, and lacks none."""
    ask = "exec 3<>/dev/tcp/127.0.0.1/9600; printf 'GET /metrics HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3"
    figures = lab.run("bash", "-c", ask, check=False)
    values = [line.split() for line in figures.splitlines() if not line.startswith("#")]
    by_name = {
        name: sum(float(line[1]) for line in values if line and line[0].startswith(name))
        for name in ("logdrive_agent_events_total", "logdrive_agent_sources_behind")
    }
    return by_name == {"logdrive_agent_events_total": count, "logdrive_agent_sources_behind": 0}


def _it_is_ready_once_it_runs_and_reads_logs_of_any_owner(lab: Lab) -> None:
    lab.write("/var/log/lab/of-root.log", "a\nb\n", mode="0600")
    lab.write("/home/tenant/own.log", "c\n", owner="tenant", mode="0600")
    lab.run("chmod", "0700", "/home/tenant", "/var/log/lab")
    lab.run("systemctl", "start", AGENT)
    assert lab.show(AGENT, "ActiveState") == "active", lab.journal(AGENT)
    lab.wait(lambda: _delivered(lab, 3), "not delivered", AGENT)

    told = orjson.loads(
        _logdrive(lab, "agent", "status", "--json", "--config", "/etc/logdrive/agent.toml")
    )
    assert (told["phase"], told["events"], told["living"]) == ("running", 3, 2)
    process = lab.show(AGENT, "MainPID")
    assert lab.run("stat", "-c", "%U", f"/proc/{process}").strip() == "logdrive"
    assert lab.run("stat", "-c", "%a %U", "/var/lib/logdrive-agent/control.sock").split() == [
        "660",
        "logdrive",
    ]
    lab.wait(
        lambda: (
            "connected to 127.0.0.1:5044; 2 files, none behind" in lab.show(AGENT, "StatusText")
        ),
        "no status",
        AGENT,
    )
    # the read-only system, and the capabilities that are not given, hold
    assert lab.run("cat", f"/proc/{process}/root/etc/logdrive/agent.toml").startswith("[agent]")
    capabilities = lab.run("grep", "Cap[PEB]", f"/proc/{process}/status").split()[1::2]
    assert capabilities == ["0000000000000004"] * 3  # CAP_DAC_READ_SEARCH


def _a_reload_is_over_when_it_says_so_and_a_mistake_changes_nothing(lab: Lab) -> None:
    process = lab.show(AGENT, "MainPID")
    lab.write("/srv/new.log", "d\n")
    lab.run("sed", "-i", "s,/home/\\*/\\*.log,/srv/*.log,", "/etc/logdrive/agent.toml")
    lab.run("systemctl", "reload", AGENT)
    lab.wait(lambda: _delivered(lab, 4), "the new path is not read", AGENT)
    assert lab.show(AGENT, "ActiveState") == "active"

    lab.write("/etc/logdrive/agent.toml", "[nonsense]\n")
    lab.run("systemctl", "reload", AGENT)
    lab.wait(lambda: "not reloaded" in lab.journal(AGENT, "-p", "err"), "no error", AGENT)
    assert "timestamp=" not in lab.journal(AGENT)  # the journal has its own
    assert lab.show(AGENT, "ActiveState") == "active"
    lab.run("sed", "-i", "s,.nonsense.,,", "/etc/logdrive/agent.toml")
    assert (lab.show(AGENT, "MainPID"), lab.show(AGENT, "NRestarts")) == (process, "0")


def _a_frozen_agent_is_started_anew_by_the_watchdog_and_goes_on(lab: Lab) -> None:
    process = lab.kill(AGENT, signal.SIGSTOP)
    lab.write("/var/log/lab/of-root.log", "e\n", mode="0600")
    lab.wait(lambda: lab.show(AGENT, "NRestarts") == "1", "not restarted", AGENT)
    lab.wait(lambda: lab.show(AGENT, "ActiveState") == "active", "not active", AGENT)
    assert "Watchdog timeout" in lab.journal(AGENT)
    assert int(lab.show(AGENT, "MainPID")) not in (0, process)
    lab.wait(lambda: _delivered(lab, 1), "the line of meanwhile is not delivered", AGENT)


def _a_killed_agent_is_started_anew_in_spite_of_its_socket(lab: Lab) -> None:
    lab.kill(AGENT, signal.SIGKILL)
    lab.write("/var/log/lab/of-root.log", "f\n", mode="0600")
    lab.wait(lambda: lab.show(AGENT, "NRestarts") == "2", "not restarted", AGENT)
    lab.wait(lambda: lab.show(AGENT, "ActiveState") == "active", "not active", AGENT)
    lab.wait(lambda: _delivered(lab, 1), "the line of meanwhile is not delivered", AGENT)


def _a_stop_drains_and_each_line_is_stored_once(lab: Lab) -> None:
    lab.write("/var/log/lab/of-root.log", "g\n", mode="0600")
    lab.run("systemctl", "stop", AGENT)
    assert (lab.show(AGENT, "ActiveState"), lab.show(AGENT, "Result")) == ("inactive", "success")
    journal = lab.journal(AGENT)
    assert "drained" in journal
    assert "MemoryError" not in journal
    assert _logdrive(lab, "agent", "status", check=False) == ""
    lab.run("systemctl", "stop", RECEIVER)
    stored = _logdrive(lab, "store", "cat", "file:///var/lib/logdrive/store#logs/events")
    assert sorted(stored.split()) == ["a", "b", "c", "d", "e", "f", "g"]


def test_it_is_started_reloaded_frozen_killed_and_stopped(lab: Lab) -> None:
    _it_is_ready_once_it_runs_and_reads_logs_of_any_owner(lab)
    _a_reload_is_over_when_it_says_so_and_a_mistake_changes_nothing(lab)
    _a_frozen_agent_is_started_anew_by_the_watchdog_and_goes_on(lab)
    _a_killed_agent_is_started_anew_in_spite_of_its_socket(lab)
    _a_stop_drains_and_each_line_is_stored_once(lab)
