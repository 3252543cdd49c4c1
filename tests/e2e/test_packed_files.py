"""Packed files the whole way, byte for byte: agent, receiver, `store cat`, tables (R2, R8, A3)."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.e2e.odd_files import ODD_FILES
from tests.support.installation import STREAM, Installation, command, read_segments
from tests.support.ledger import Ledger, batches
from tests.support.packs import unpacked
from tests.support.record_bytes import bytes_of

pytestmark = pytest.mark.process

FORMS = {
    # records and compression of the agent, unpack of the receiver: what the stream's batches are
    ("packed", "zlib", "no"): {"text, deflate", "text, stored"},
    # what zstd shrinks too much goes by deflate
    ("packed", "zstd", "no"): {"text, zstd", "text, deflate", "text, stored"},
    ("packed", "none", "no"): {"text, stored"},
    ("packed", "zlib", "blocks"): {"blocks", "records"},
    ("packed", "zstd", "full"): {"records"},
    ("full", "zlib", "no"): {"records, deflate", "records, stored"},
    ("block", "zlib", "no"): {"blocks", "records"},
}
CODECS = ("stored", "deflate", "zstd")


@pytest.fixture
def system(
    tmp_path: Path, certificates: Path, request: pytest.FixtureRequest
) -> Iterator[Installation]:
    records, compression, unpack = request.param
    installation = Installation(
        tmp_path,
        certificates,
        # one segment: its order is that in which lines are printed
        receiver_extra=f'segments = 1\nunpack = "{unpack}"\n',
        agent_extra=f'records = "{records}"\ncompression = "{compression}"\n',
        # also the last lines without a newline are sent soon
        input_extra="quiet_seconds = 1.0\n",
    )
    yield installation
    installation.close()


@pytest.fixture
def files(system: Installation, real_logs: list[Path]) -> dict[str, bytes]:
    """Return the files below the directory that the agent looks at; none is empty."""
    contents = {f"{name}.log": content for name, content in ODD_FILES.items()}
    contents |= {path.name: path.read_bytes() for path in real_logs}
    for name, content in contents.items():
        (system.logs / name).write_bytes(content)
    return {name: content for name, content in contents.items() if content}


def _logdrive(*arguments: str) -> bytes:
    done = subprocess.run(command(*arguments), capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def _deliver(system: Installation, files: dict[str, bytes]) -> None:
    """Let an agent deliver all *files*, and end both programs."""
    receiver, agent = system.receiver(), system.agent()
    system.await_acknowledged(sum(map(len, files.values())))
    assert agent.terminate(120) == 0, agent.said()
    assert receiver.terminate() == 0, receiver.said()


def _forms_and_text(segment: bytes) -> tuple[set[str], bytes]:
    """Return what the data batches of *segment* are, and all bytes of files, in whole lines.

    Shares no code with the readers of the product.
    """
    forms, text = set[str](), list[tuple[str, bytes]]()
    for header, records in batches(segment):
        if header["kind"] != "data":
            continue
        if "form" in header:
            forms.add(f"{header['form']}, {CODECS[records[0][1]]}")
            text += [(header["source"], data) for _, data in unpacked(records[0], header).pieces]
            continue
        for record in map(orjson.loads, records):
            forms.add("blocks" if "lines" in record["log"] else "records")
            text.append((header["source"], bytes_of(record)[0]))
    return forms, _in_whole_lines(text)


def _in_whole_lines(text: list[tuple[str, bytes]]) -> bytes:
    """Return the pieces of *text*; one that ends within a line waits for its source's next."""
    out, begun = list[bytes](), dict[str, bytes]()
    for source, data in text:
        lines, end, rest = data.rpartition(b"\n")
        if end:
            out += [begun.pop(source, b""), lines, end]
        if rest:
            begun[source] = begun.get(source, b"") + rest
    return b"".join([*out, *begun.values()])


@pytest.mark.parametrize(
    ("system", "wanted"), FORMS.items(), indirect=["system"], ids=map("-".join, FORMS)
)
def test_files_are_stored_and_printed_byte_for_byte__R2_R8(
    system: Installation, wanted: set[str], files: dict[str, bytes]
) -> None:
    _deliver(system, files)
    (segment,) = asyncio.run(read_segments(str(system.store)))
    forms, text = _forms_and_text(segment)
    assert forms == wanted

    delivered = Ledger.read([segment]).by_data()
    missing = [name for name, content in files.items() if content not in delivered]
    assert not missing
    assert len(delivered) == len(files)

    uri = f"file://{system.store}#{STREAM}"
    assert _logdrive("store", "cat", uri) == text
    assert b"all of them whole" in _logdrive("store", "verify", uri, "--deep")


@pytest.mark.spark
@pytest.mark.parametrize(
    "system", [("packed", "zlib", "no"), ("packed", "zstd", "blocks")], indirect=True, ids="-".join
)
def test_files_rebuilt_from_the_table_are_the_files__R2_R8_A3(
    system: Installation, files: dict[str, bytes]
) -> None:
    from logdrive.pipeline.bronze.rebuild import source_pieces

    _deliver(system, files)
    tables = str(system.root / "tables")
    uri = f"file://{system.store}#{STREAM}"
    _logdrive("pipeline", "run", "--from", uri, "--to", tables, "--once")
    audit = orjson.loads(_logdrive("pipeline", "audit", tables, "--json"))
    assert audit["complete"]

    rebuilt = {
        Path(source["path"]).name: b"".join(
            data for _, data in source_pieces(tables, source["source"])
        )
        for source in audit["by_source"]
    }
    assert rebuilt.keys() == files.keys()
    assert [name for name in files if rebuilt[name] != files[name]] == []
    assert (audit["lost_bytes"], audit["duplicate_events"], audit["gaps"]) == (0, 0, [])
    assert audit["bytes"] == sum(map(len, files.values()))
