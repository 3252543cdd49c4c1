"""Lines that processors drop and redact, from the agent to the tables: no secret is anywhere in the
store, all other bytes are in one row each, and the audit says what is missing (R1, R2, R8, A3).
"""

import base64
from pathlib import Path
from typing import Any

import pytest

from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.audit.engines.arrow import ArrowEngine
from logdrive.pipeline.bronze.tables import open_tables
from tests.e2e.test_lines_in_tables import shipped, written
from tests.logdrive.pipeline.audit.test_deep import audited
from tests.support.virtual_time import run

PROCESSORS: list[dict[str, Any]] = [
    {"exclude": {"pattern": "^DEBUG"}},
    {"redact": {"presets": ["email"], "pattern": "pin=(\\w+)"}},
]
SECRETS = (b"s3cret@example.org", b"p1np1n")
LINES = [
    b"INFO one\n",
    b"DEBUG of s3cret@example.org\n",
    b"INFO to s3cret@example.org \xff\n",
    b"WARN pin=p1np1n\r\n",
    b'{"pin":"p1np1n","a":"pin=p1np1n"}\n',
    "INFO z\u20acwei\n".encode(),
]
DATA = b"".join(LINES) * 30

KEYS: dict[str, dict[str, Any]] = {
    "dropped alone": {"processor": PROCESSORS[:1]},
    "dropped and redacted": {"processor": PROCESSORS},
    "with fields": {"processor": [*PROCESSORS, {"add": {"team": "shop"}}], "format": "json"},
}


@pytest.mark.parametrize(
    ("records", "unpack"), [("packed", "no"), ("packed", "blocks"), ("full", "no"), ("block", "no")]
)
@pytest.mark.parametrize("name", KEYS)
def test_what_is_dropped_or_redacted_is_said_and_all_else_is_there__R1_R2_A3(
    tmp_path: Path, name: str, records: str, unpack: str
) -> None:
    keys = KEYS[name]
    redacts = name != "dropped alone"
    data = DATA if redacts else DATA.replace(b"s3cret", b"x").replace(b"p1np1n", b"y")
    disk = run(shipped(keys, data, records=records, unpack=unpack, seed=len(name)))
    segments = written(disk, tmp_path)

    stored = b"".join(bytes(segment.data) for segment in segments)
    bronze, batches = open_tables(str(tmp_path))
    rows = bronze.read_rows(["start", "end", "message", "original", "fields", "flag"]).to_pylist()
    said = stored + str(rows).encode()
    assert not [secret for secret in SECRETS if secret in said]
    assert not [secret for secret in SECRETS if base64.b64encode(secret)[:8] in said]

    verdict = audit(str(tmp_path), ArrowEngine)
    assert verdict.complete, verdict
    packs, _ = audited(*segments)
    assert (packs.faulty, packs.opened > 0) == (0, records != "block" and unpack == "no")
    assert verdict.redacted_events == (90 if redacts else 0)
    (source,) = verdict.by_source
    dropped = [
        (one["start"], one["end"])
        for row in batches.read_rows(["dropped"]).to_pylist()
        for one in row["dropped"] or []
    ]
    assert {data[begin:end].strip().split()[0] for begin, end in dropped} == {b"DEBUG"}
    assert source.skipped_bytes == sum(end - begin for begin, end in dropped)
    assert len(dropped) == data.count(b"DEBUG")

    # a line that is flagged has another text; every other one is the file's
    redacted = [row for row in rows if "redacted" in (row["flag"] or "")]
    assert len(redacted) == (90 if redacts else 0)
    assert all("[redacted" in row["message"] for row in redacted)
    for row in rows:
        if row not in redacted:
            text = data[row["start"] : row["end"]].decode(errors="replace")
            assert row["message"] == text.rstrip("\r\n")
    intervals = sorted([*dropped, *((row["start"], row["end"]) for row in rows)])
    assert [0, *(end for _, end in intervals)] == [*(start for start, _ in intervals), len(data)]
