"""Tables that meet a stream of the same name at another store: by a wrong address, or for good."""

from collections.abc import Callable
from pathlib import Path
from threading import Event
from uuid import UUID

import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.errors import ConfigError
from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.backfill import check_backfill, run_backfill
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.plan import Plan
from logdrive.pipeline.rebuild_bronze import check_rebuild
from tests.logdrive.pipeline.begun import plan, received, run
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import SEGMENT, STORE, STREAM, Segment, lines, source_id
from tests.logdrive.pipeline.storing import cut_off, store

_OTHER = str(UUID(int=8))
_TURNS = 8


def _segment(name: str, store: str, turns: int = _TURNS, clock: int = 1_700_000_000_000) -> Segment:
    """Lines of a file, and of a foreign peer behind each batch."""
    segment, at = Segment(store=store, clock=clock), 0
    for turn in range(turns):
        segment.clock += 1000
        at = send(segment, name, lines(name, turn * 50, 50), at)
        segment.foreign("beats", [b'{"message":"%s %d"}' % (name.encode(), turn)])
    return segment


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    return tmp_path / "tables"


@pytest.fixture
def ours(tmp_path: Path) -> str:
    return store(tmp_path / "ours", _segment("a", STORE))


@pytest.fixture
def theirs(tmp_path: Path) -> str:
    return store(tmp_path / "theirs", _segment("b", _OTHER, _TURNS + 2))


def _rows(tables: Path) -> int:
    return int(open_tables(str(tables))[0].read_rows(["batch"]).num_rows)


def test_a_stream_of_another_store_is_refused_and_the_right_address_goes_on(
    tmp_path: Path, tables: Path, ours: str, theirs: str
) -> None:
    run(plan(ours, tables))
    with pytest.raises(ConfigError) as refused:
        run(plan(theirs, tables))
    said = str(refused.value)
    assert all(name in said for name in (theirs, STORE, _OTHER, str(tables), "--replaced-store"))
    assert _rows(tables) == _TURNS * 51
    store(tmp_path / "ours", _segment("a", STORE, _TURNS + 1))
    run(plan(ours, tables))
    assert _rows(tables) == (_TURNS + 1) * 51
    assert audit(str(tables)).complete


def test_another_store_whose_stream_begins_behind_the_tables_end_is_refused(
    tmp_path: Path, tables: Path, ours: str, theirs: str
) -> None:
    """None of the headers that the tables know is in what retention has left of it."""
    run(plan(ours, tables))
    other = _segment("b", _OTHER, _TURNS + 2)
    last = list(walk_batches(SEGMENT, 0, bytes(other.data)))[-1]
    cut_off(tmp_path / "theirs", SEGMENT, last.offset)
    with pytest.raises(ConfigError, match="correct the address"):
        run(plan(theirs, tables))


@pytest.mark.parametrize("ask", [check_backfill, lambda one: run_backfill(one, Event())])
def test_tables_are_not_filled_from_another_store_before_their_beginning(
    ask: Callable[[Plan], object], tables: Path, ours: str, theirs: str
) -> None:
    run(plan(ours, tables, received(_segment("a", STORE), 8)))
    before = _rows(tables)
    with pytest.raises(ConfigError, match="correct the address"):
        ask(plan(theirs, tables))
    assert _rows(tables) == before
    assert check_backfill(plan(ours, tables)).to_read > 0


def test_a_dry_run_names_another_store_where_there_is_nothing_to_fill(
    tables: Path, ours: str, theirs: str
) -> None:
    run(plan(ours, tables))
    with pytest.raises(ConfigError, match="correct the address"):
        check_backfill(plan(theirs, tables))
    assert check_backfill(plan(ours, tables)).nothing


def test_tables_are_not_made_anew_from_another_store(tables: Path, ours: str, theirs: str) -> None:
    run(plan(ours, tables))
    with pytest.raises(ConfigError, match="correct the address"):
        check_rebuild(plan(theirs, tables))
    assert check_rebuild(plan(ours, tables)).stream_offsets > 0


def test_a_store_that_was_replaced_is_gone_on_with_once_that_is_said(
    tmp_path: Path, tables: Path, ours: str, theirs: str
) -> None:
    run(plan(ours, tables))
    command = ["pipeline", "run", "--from", theirs, "--to", str(tables), "--once", "--reader", ""]
    done = CliRunner().invoke(cli, [*command, "--replaced-store"])
    assert done.exit_code == 0, done.output
    store(tmp_path / "theirs", _segment("b", _OTHER, _TURNS + 3))
    run(plan(theirs, tables))  # from now on it is theirs
    with pytest.raises(ConfigError, match="correct the address"):
        run(plan(ours, tables))
    verdict = audit(str(tables))
    assert (verdict.complete, verdict.duplicate_events) == (True, 0), verdict.faults
    assert _rows(tables) == (_TURNS + _TURNS + 3) * 51
    for name, turns in (("a", _TURNS), ("b", _TURNS + 3)):
        data = lines(name, 0, turns * 50)
        assert list(source_pieces(str(tables), source_id(name))) == [(0, data)]


def test_a_replaced_store_is_said_once_though_some_segments_get_their_lines_later(
    tmp_path: Path, tables: Path
) -> None:
    first, second = _segment("a", STORE, 2), _segment("b", STORE, 2)
    second.name = SEGMENT.replace("/0.", "/1.")
    run(plan(store(tmp_path / "ours", first, second), tables))
    new, late = _segment("c", _OTHER, 2), Segment(name=second.name, store=_OTHER)
    theirs = store(tmp_path / "theirs", new, late)
    run(plan(theirs, tables, replaced_store=True))
    late.data += _segment("d", _OTHER, 2, clock=1_800_000_000_000).data
    store(tmp_path / "theirs", new, late)
    run(plan(theirs, tables))
    assert _rows(tables) == 4 * 2 * 51
    with pytest.raises(ConfigError, match="correct the address"):
        run(plan(f"file://{tmp_path / 'ours'}#{STREAM}", tables))


def test_a_stream_that_its_own_store_made_anew_goes_on_by_itself(
    tmp_path: Path, tables: Path, ours: str
) -> None:
    """As a store that was restored to before all that the tables have (R5): its id is the same."""
    run(plan(ours, tables))
    anew = _segment("b", STORE, 2, clock=1_800_000_000_000)
    run(plan(store(tmp_path / "restored", anew), tables))
    assert _rows(tables) == (_TURNS + 2) * 51


def test_a_store_that_has_nothing_yet_is_waited_for(
    tmp_path: Path, tables: Path, ours: str
) -> None:
    run(plan(ours, tables))
    empty = store(tmp_path / "empty", Segment(store=_OTHER))
    assert run(plan(empty, tables)).events == 0
    assert _rows(tables) == _TURNS * 51


def test_a_stream_of_which_one_receiver_is_known_is_the_same(
    tmp_path: Path, tables: Path, ours: str
) -> None:
    """Receivers may write a store's address differently: each is another name of the store."""
    run(plan(ours, tables))
    both = _segment("b", _OTHER, 2)
    both.store = STORE
    both.foreign("beats", [b'{"message":"x"}'])
    run(plan(store(tmp_path / "restored", both), tables))
    assert _rows(tables) == _TURNS * 51 + 2 * 51 + 1
