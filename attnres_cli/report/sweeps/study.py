"""The runs of a study: as those of any group, under the plan's name and hash."""

from __future__ import annotations

from typing import Any

from attnres_cli.report.document import Block, Notice
from attnres_cli.report.study import label, study_of
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.sweeps import arms, group

SHOWS_IMPOSSIBLE = True


def blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    return [_plan_notice(document), *group.blocks(document, width_columns)]


def plan_blocks(document: SweepDocument, width_columns: int | None) -> list[Block]:
    return arms.plan_blocks(document, width_columns)


def payload(document: SweepDocument) -> dict[str, Any]:
    study = study_of(document)
    labels = {} if study is None else {run["name_of_run"]: run["label"] for run in labelled(document)}
    return {**arms.payload(document), "labels": labels}


def labelled(document: SweepDocument) -> list[dict[str, Any]]:
    """Per run of the document its name ("prenorm-s0"), status, and whether it was planned."""
    study = study_of(document)
    assert study is not None, "a document of a study"
    return [
        {
            "name_of_run": run["folder"] or f"{run['arm']}-s{run['seed']}",
            "arm": run["arm"],
            "seed": run["seed"],
            "status": run["status"],
            "label": label(study, run["digest"]),
        }
        for run in document["runs"]
    ]


def _plan_notice(document: SweepDocument) -> Notice:
    """The hash; and which runs the plan does not have."""
    study = study_of(document)
    if study is None:
        return Notice("This group holds no plan", (), "warning")
    beyond = [run["name_of_run"] for run in labelled(document) if run["label"] == "exploratory"]
    lines = [str(document["request"]["study"]["plan"]["hypothesis"]), f"Plan: {study.hash}"]
    if beyond:
        lines.append(f"Exploratory, beyond the plan: {', '.join(beyond)}.")
    return Notice(f"Study {study.name}", tuple(lines), "warning" if beyond else "plain")
