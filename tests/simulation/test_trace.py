"""The trace holds what the programs of one history log, and nothing else."""

import threading

import structlog

from tests.simulation.trace import Trace, recorded


def test_what_other_threads_log_is_no_part_of_a_history() -> None:
    """Of a test before, whose threads still run."""
    trace = Trace(lambda: 1.5)
    log = structlog.get_logger()
    with recorded(trace):
        log.info("connected", host="a:1")
        other = threading.Thread(target=log.warning, args=("connection lost",))
        other.start()
        other.join()
    assert trace.text() == "    1.500             connected host=a:1"
    assert trace.heard == {": connected": 1}
