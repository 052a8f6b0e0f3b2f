"""Output formats: one file each, with `render(document, *, width_columns, colour) -> str`; the file's name is the
format's."""
