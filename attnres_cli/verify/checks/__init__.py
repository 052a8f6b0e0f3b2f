"""One file per check of the schemes here: `ORDER`, `TITLE`, and `check(subjects)`, which yields findings."""
