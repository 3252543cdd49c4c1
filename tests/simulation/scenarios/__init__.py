"""The histories of delivery.md §7 as scripts: what happens is written down here, all of the product
runs.

Left out, for there is no setting yet that could bring them about:

- 15, routing rules: there are none (D7).
- 18 and 19, sinks without numbers: there are none (S5).
- 22, excluded bytes: the agent drops no lines (R1, D1).
- 26, a bound on deleted files held open: there is none.

What of 6, 7, 14 and 27 speaks of copies and compressed files (G5) stands in `test_copies.py` as
what must fail until it is built.
"""
