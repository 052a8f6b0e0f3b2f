"""Every number of every table about runs, computed again by slow code that shares nothing with the program.

A module of *oracles* holds definitions, as docs/ gives them, in plain Python: it reads run directories with json,
tomllib and numpy, and imports nothing of the program. The test modules make material, give it to the real command, and
hold every cell of its `--json` against the oracles (harness.py). test_every_table.py finds the tables of the program
that no oracle covers.
"""
