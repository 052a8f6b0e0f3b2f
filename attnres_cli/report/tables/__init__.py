"""Tables: one file each, free of any look.

A file that defines `COMPARISON_ORDER` (a number) and `build(comparison: Comparison) -> Table | None` is part of what
`attnres compare` prints, in that order; None leaves the table out.
"""
