"""The histories of the delivery rules as scripts, in which the whole product runs.

Two are tests of a part: 15, a routing rule on a path, in `tests/receiver/test_config.py`, as there
are no routing rules (D7); and 22, dropped bytes, in `tests/agent/test_processors.py` (R1, D1).
"""
