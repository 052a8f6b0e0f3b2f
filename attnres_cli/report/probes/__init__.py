"""Tables of what probes found, one file per probe, called as the probe is. A file defines

tables(runs: Sequence[ProbedRun]) -> Iterator[Table]     runs: those in which this probe found something
"""
