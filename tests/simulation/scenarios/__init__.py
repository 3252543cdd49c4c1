"""The histories of delivery.md §7 as scripts, in which the whole product runs.

Left out, since no setting leads to them yet:

- 15, routing rules: there are none (D7).
- 18 and 19, sinks without numbers: there are none (S5).
- 22, excluded bytes: the agent drops no lines (R1, D1).
- 26, a bound on deleted files held open: there is none.

The parts of 6, 7, 14 and 27 about copies and compressed files (G5) are in `test_copies.py`, and
are expected to fail until that is built.
"""
