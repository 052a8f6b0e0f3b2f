"""Kinds of sweeps: one file each, found by discovery. `attnres sweep show` needs none of them.

A file defines

    GROWING: tuple[str, ...]              settings of its request that are lists and may grow when asked for again
    def most_cells(request) -> int        how many cells its grid has at most
    def plan(request, context) -> Sweep   every run, every impossible cell with its reason

and a function that makes its request from options (used by its command). It may define

    def measure(sweep, progress) -> bool  takes what stands beside the runs, once they have ended, into sweep.measured;
                                          says whether there was anything to take

What a kind has in common with the others, axes × constraints × seeds → runs, is `sweep.layout.lay_out`; the sweep's
`report` names the file of report/sweeps/ that shows it.
"""
