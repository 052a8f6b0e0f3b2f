"""One file per family of properties of a user's module: `ORDER`, `TITLE`, and `check(candidate)`, yielding findings."""
