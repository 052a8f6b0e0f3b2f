"""JSON: one object at full precision, {"schema": "attnres.<kind>/1", …, "tables": {…}}."""

from __future__ import annotations

from attnres_cli.report.document import Document
from attnres_cli.runs.files import json_text


def render(document: Document, *, width_columns: int | None = None, colour: bool = False) -> str:
    """Null stands for what is absent, failed or not finite; the rows of a table list their failed keys."""
    values = {
        "schema": f"attnres.{document.kind}/1",
        **document.payload,
        "tables": {key: table.to_dict() for key, table in document.tables.items()},
    }
    return json_text(values, indent=2) + "\n"
