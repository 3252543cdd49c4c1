"""An agent is enrolled with one command on each side, and no existing file is overwritten."""

import asyncio
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.config.config import AgentConfig
from logdrive.cli.main import cli
from logdrive.config.load import load_config
from logdrive.host.transport import ByteStream, ServerTls
from logdrive.net.settings import ClientTlsConfig
from logdrive.net.tcp import SystemTransport

CLIENT = "web-1.example.com"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments])


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    """The receiver's certificates."""
    directory = tmp_path / "receiver"
    assert run("certs", directory).exit_code == 0
    return directory


@pytest.fixture
def bundle(authority: Path, tmp_path: Path) -> Path:
    path = tmp_path / "web-1.pem"
    assert run("certs", authority, "--client", CLIENT, "--bundle", path).exit_code == 0
    return path


def enroll(bundle: Path, directory: Path, *more: str) -> Result:
    return run("agent", "enroll", bundle, "--to", "localhost:5044", "--dir", directory, *more)


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def tls_of(config: AgentConfig) -> ClientTlsConfig:
    assert isinstance(config.output.tls, ClientTlsConfig)
    return config.output.tls


def test_one_command_on_each_side_and_the_receiver_knows_the_agent(
    authority: Path, bundle: Path, tmp_path: Path
) -> None:
    etc = tmp_path / "etc"
    done = enroll(bundle, etc)
    assert done.exit_code == 0, done.output
    assert f"dns:{CLIENT}" in done.output
    assert "it sends the logs in /var/log, from their first line" in done.output
    config = load_config(str(etc / "agent.toml"), AgentConfig, {})
    assert config.output.hosts == ["localhost:5044"]
    server = ServerTls(f"{authority}/server.pem", f"{authority}/server.key", f"{authority}/ca.pem")

    async def met() -> bytes:
        async def answer(stream: ByteStream) -> None:
            await stream.write([str(stream.peer.identity).encode()])

        listener = await SystemTransport().listen("127.0.0.1", 0, server, answer)
        stream = await SystemTransport().connect(
            "localhost", listener.address[1], tls_of(config).settings()
        )
        identity = await stream.read()
        await stream.close()
        await listener.close()
        return identity

    assert asyncio.run(asyncio.wait_for(met(), 10)) == f"dns:{CLIENT}".encode()


def test_the_first_client_of_a_new_ca_can_have_a_bundle(tmp_path: Path) -> None:
    bundle = tmp_path / "first.pem"
    made = run(
        "certs",
        tmp_path / "tls",
        "--name",
        "logs.example.com",
        "--client",
        CLIENT,
        "--bundle",
        bundle,
    )
    assert made.exit_code == 0, made.output
    assert "logdrive agent enroll first.pem --to logs.example.com:5044\n" in made.output
    assert enroll(bundle, tmp_path / "etc").exit_code == 0
    assert (tmp_path / "etc/tls/client.key").read_bytes() == (
        tmp_path / "tls/client.key"
    ).read_bytes()


def test_a_later_bundle_names_the_receiver_too__unless_its_certificate_has_only_local_names(
    authority: Path, tmp_path: Path
) -> None:
    tls = tmp_path / "tls"
    assert run("certs", tls, "--name", "2001:db8::7").exit_code == 0
    added = run("certs", tls, "--client", CLIENT, "--bundle", tmp_path / "b.pem")
    assert "logdrive agent enroll b.pem --to [2001:db8::7]:5044\n" in added.output
    added = run("certs", authority, "--client", CLIENT, "--bundle", tmp_path / "c.pem")
    assert "logdrive agent enroll c.pem --to HOST:PORT\n" in added.output


def test_keys_are_readable_by_their_owner_only(bundle: Path, tmp_path: Path) -> None:
    assert enroll(bundle, tmp_path / "etc").exit_code == 0
    for path in (bundle, tmp_path / "etc/tls/client.key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_agent_toml_reads_what_the_commented_example_reads(
    bundle: Path, tmp_path: Path
) -> None:
    assert enroll(bundle, tmp_path / "etc").exit_code == 0
    made = load_config(str(tmp_path / "etc/agent.toml"), AgentConfig, {})
    example = load_config(str(Path(__file__).parents[4] / "config/agent.toml"), AgentConfig, {})
    assert [(table.paths, table.exclude) for table in made.input] == [
        (table.paths, table.exclude) for table in example.input
    ]
    assert made.agent.state_dir == example.agent.state_dir


def test_a_new_agent_toml_names_the_form_of_records_and_its_choices(
    bundle: Path, tmp_path: Path
) -> None:
    assert enroll(bundle, tmp_path / "etc").exit_code == 0
    path = tmp_path / "etc/agent.toml"
    assert load_config(str(path), AgentConfig, {}).output.records == "packed"
    text = path.read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("#records = "))
    assert '"block"' in text
    assert '"full"' in text
    path.write_text(text.replace(line, line[1:].replace("packed", "full")))
    assert load_config(str(path), AgentConfig, {}).output.records == "full"


def test_a_second_time_changes_nothing(bundle: Path, tmp_path: Path) -> None:
    etc = tmp_path / "etc"
    assert enroll(bundle, etc).exit_code == 0
    before = files(etc)
    assert enroll(bundle, etc).exit_code == 0
    assert files(etc) == before


def test_another_certificate_is_replaced_by_force_only(
    authority: Path, bundle: Path, tmp_path: Path
) -> None:
    etc, other = tmp_path / "etc", tmp_path / "web-2.pem"
    assert (
        run("certs", authority, "--client", "web-2.example.com", "--bundle", other).exit_code == 0
    )
    assert enroll(bundle, etc).exit_code == 0
    before = files(etc)
    refused = enroll(other, etc)
    assert refused.exit_code != 0
    assert f"{etc}/tls/client.pem exists already" in refused.output
    assert "--force" in refused.output
    assert files(etc) == before
    assert enroll(other, etc, "--force").exit_code == 0
    assert (etc / "tls/client.key").read_bytes() in other.read_bytes()


def test_an_agent_toml_without_output_gets_it_and_keeps_the_rest(
    bundle: Path, tmp_path: Path
) -> None:
    etc, mine = (
        tmp_path / "etc",
        '[agent]\nstate_dir = "/tmp/x"\n[[input]]\npaths = ["/tmp/*.log"] # mine',
    )
    etc.mkdir()
    (etc / "agent.toml").write_text(mine)
    assert enroll(bundle, etc).exit_code == 0
    assert (etc / "agent.toml").read_text().startswith(mine + "\n")
    config = load_config(str(etc / "agent.toml"), AgentConfig, {})
    assert config.input[0].paths == ["/tmp/*.log"]
    assert tls_of(config).key == str(etc / "tls/client.key")


def test_an_output_that_is_there_stays_and_the_lines_for_it_are_shown(
    bundle: Path, tmp_path: Path
) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "agent.toml").write_text(mine := '[output]\nhosts = ["other:5044"]\ntls = "off"\n')
    done = enroll(bundle, etc)
    assert done.exit_code == 0
    assert (etc / "agent.toml").read_text() == mine
    assert 'hosts = ["localhost:5044"]' in done.output


def test_a_broken_agent_toml_is_named_before_anything_is_written(
    bundle: Path, tmp_path: Path
) -> None:
    etc = tmp_path / "etc"
    etc.mkdir()
    (etc / "agent.toml").write_text("[output\n")
    before = files(etc)
    refused = enroll(bundle, etc)
    assert refused.exit_code != 0
    assert f"{etc}/agent.toml" in refused.output
    assert "correct it first" in refused.output
    assert files(etc) == before


@pytest.mark.parametrize("receiver", [" ", "a b", "a:b", "a:1 "])
def test_a_receiver_that_is_no_address_is_refused_before_anything_is_written(
    bundle: Path, tmp_path: Path, receiver: str
) -> None:
    refused = run("agent", "enroll", bundle, "--to", receiver, "--dir", tmp_path / "etc")
    assert (refused.exit_code, "write host:port" in refused.output) == (2, True)
    assert not (tmp_path / "etc").exists()


def _without_key(data: bytes, _: bytes) -> bytes:
    return data.partition(b"-----BEGIN PRIVATE KEY")[0]


def _key_of_another(data: bytes, other: bytes) -> bytes:
    return data.partition(b"-----BEGIN PRIVATE KEY")[0] + b"".join(
        other.partition(b"-----BEGIN PRIVATE KEY")[1:]
    )


def _ca_twice(data: bytes, _: bytes) -> bytes:
    end = b"-----END CERTIFICATE-----\n"
    ca, certificate, key = data.split(end)
    assert certificate
    return ca + end + ca + end + key


def _bit_flipped(data: bytes, _: bytes) -> bytes:
    middle = len(data) // 2
    return (
        data[:middle] + (b"B" if data[middle : middle + 1] == b"A" else b"A") + data[middle + 1 :]
    )


@pytest.mark.parametrize(
    "damage",
    [
        _without_key,
        _key_of_another,
        _ca_twice,
        _bit_flipped,
        lambda _, __: b"",
        lambda d, _: d * 99,
    ],
)
def test_a_bundle_that_does_not_fit_is_refused_with_its_remedy(
    authority: Path, bundle: Path, tmp_path: Path, damage: object
) -> None:
    assert callable(damage)
    other = tmp_path / "other.pem"
    assert (
        run("certs", authority, "--client", "web-2.example.com", "--bundle", other).exit_code == 0
    )
    bundle.write_bytes(damage(bundle.read_bytes(), other.read_bytes()))
    refused = enroll(bundle, tmp_path / "etc")
    assert refused.exit_code != 0
    assert str(bundle) in refused.output.replace("\n", "")
    assert "--bundle FILE" in refused.output
    assert not (tmp_path / "etc").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give exactly one --client NAME"),
        (["--client", "a.example", "--client", "b.example"], "give exactly one --client NAME"),
    ],
)
def test_a_bundle_is_for_one_client(
    authority: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    before = files(authority)
    refused = run("certs", authority, *arguments, "--bundle", tmp_path / "x.pem")
    assert refused.exit_code != 0
    assert said in refused.output
    assert files(authority) == before


def test_a_bundle_is_never_overwritten_and_no_certificate_is_made_in_vain(
    authority: Path, tmp_path: Path
) -> None:
    before = files(authority)
    (tmp_path / "x.pem").write_text("precious")
    for path, said in (
        (tmp_path / "x.pem", "exists already"),
        (tmp_path / "no/x.pem", "not a directory"),
    ):
        refused = run("certs", authority, "--client", CLIENT, "--bundle", path)
        assert refused.exit_code != 0
        assert said in refused.output
    assert (tmp_path / "x.pem").read_text() == "precious"
    assert files(authority) == before


def test_an_address_that_is_none_is_refused(bundle: Path, tmp_path: Path) -> None:
    refused = run("agent", "enroll", bundle, "--to", "logs:port", "--dir", tmp_path / "etc")
    assert refused.exit_code != 0
    assert "logs:port" in refused.output
    assert not (tmp_path / "etc").exists()
