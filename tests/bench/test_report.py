"""A figure has a ratio to each peer that has the same one; one that is another figure in another
unit has none beside that.
"""

from bench.measure import Outcome, Series
from bench.report import ratios


def _outcome(**figures: float) -> Outcome:
    named = {name.replace("__", "."): value for name, value in figures.items()}
    return Outcome({name: Series("x", [value]) for name, value in named.items()}, {}, {})


def test_the_same_figure_of_a_peer_gives_a_ratio() -> None:
    outcome = _outcome(spark__table__raw_bytes=600.0, spark__read_text__raw_bytes=400.0)
    assert ratios("spark.table.raw_bytes", outcome, ["spark.read_text"]) == {"read_text": 1.5}


def test_bytes_beside_lines_have_no_ratio() -> None:
    outcome = _outcome(
        a__ours__raw_bytes=2.0, a__ours__lines_per_second=2.0, a__peer__raw_bytes=1.0
    )
    assert ratios("a.ours.raw_bytes", outcome, ["a.peer"]) == {}
