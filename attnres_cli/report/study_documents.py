"""What `attnres study` prints: a plan that has just been frozen, one with what is done of it, and all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from attnres_cli.report.document import Block, Document, Notice
from attnres_cli.report.phrases import counted, nats
from attnres_cli.report.study import SHOWN_DIGITS, Power, study_of
from attnres_cli.report.sweep_documents import plan_document
from attnres_cli.report.sweep_price import price
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.sweeps.study import labelled
from attnres_cli.report.table import Cell, Column, Row, Table

Plan = Mapping[str, Any]


def new_study_document(
    plan: Plan, hash_: str, sweep: SweepDocument, power: Power | None, width_columns: int | None, *, is_written: bool
) -> Document:
    """A plan with its price. is_written: whether there is a file of it now."""
    title = f"Study {plan['name']}: " + ("frozen" if is_written else "a plan, not written (--dry-run)")
    lines = [*_plan_lines(plan, hash_), *([f"Train it: attnres study run {plan['name']}"] if is_written else [])]
    blocks: list[Block] = [
        Notice(title, tuple(lines), "result"),
        arms_table(plan, None),
        *plan_document(sweep, width_columns).blocks,
        _power_notice(plan, power),
        *_tuning_notices(plan),
    ]
    payload = {**_payload(plan, hash_, power), "price": price(sweep), "written": is_written}
    return Document("study-plan", tuple(blocks), payload)


def study_document(
    plan: Plan, hash_: str, done: SweepDocument | None, changed: Sequence[str], power: Power | None
) -> Document:
    """A plan with what is done. done: its group's sweep document, None before the first run. changed: keys of the plan
    that differ from what the runs were trained by."""
    blocks: list[Block] = [Notice(f"Study {plan['name']}", tuple(_plan_lines(plan, hash_)))]
    study = None if done is None else study_of(done)
    runs = [] if done is None or study is None else labelled(done)
    if changed:
        was = f"; they were trained by {study.hash[:SHOWN_DIGITS]}" if study else ""
        lines = (f"It differs in: {', '.join(changed)}{was}.", "What these runs show belongs to the plan before.")
        blocks.append(Notice("This plan was changed after its first run", lines, "warning"))
    blocks.append(arms_table(plan, runs))
    blocks.append(_done_notice(plan, runs))
    blocks += [_power_notice(plan, power), *_tuning_notices(plan)]
    payload = {**_payload(plan, hash_, power), "changed": list(changed), "runs": runs}
    return Document("study", tuple(blocks), payload)


def studies_document(found: Sequence[Mapping[str, Any]]) -> Document:
    """A row per plan; one that cannot be read is a row with its reason."""
    rows: list[Row] = [
        {
            "name": each["name"],
            "hash": Cell(each["hash"], text=each["hash"] and each["hash"][:SHOWN_DIGITS], note=each["error"],
                         failed=each["error"] is not None),
            "preset": each["plan"] and each["plan"]["preset"]["name"],
            "arms": each["plan"] and ", ".join(arm["label"] for arm in each["plan"]["arms"]),
            "seeds": each["plan"] and len(each["plan"]["seeds"]),
        }
        for each in found
    ]  # fmt: skip
    columns = (
        Column("name", "study"),
        Column("hash", "plan"),
        Column("preset", "preset"),
        Column("seeds", "seeds", kind="count"),
        Column("arms", "arms"),
    )
    return Document("studies", (Table("studies", "Studies", columns, tuple(rows)),), {"studies": list(found)})


def arms_table(plan: Plan, runs: Sequence[Mapping[str, Any]] | None) -> Table:
    """The arms, the reference first, with how they were tuned. runs: of its group, where it can have some."""
    rows: list[Row] = []
    train = plan["preset"]["values"]["train"]
    for arm in plan["arms"]:
        own = [run for run in runs or () if run["arm"] == arm["label"] and run["label"] == "planned"]
        tuning = arm["tuning"]
        rows.append(
            {
                "arm": arm["label"],
                "scheme": arm["residual"]["scheme"],
                "learning_rate": arm.get("changes", {}).get("train.learning_rate", train["learning_rate"]),
                "trials": tuning["trials"],
                "tuned_by": tuning.get("tune"),
                "done": sum(run["status"] == "finished" for run in own),
                "planned": len(plan["seeds"]),
            }
        )
    columns = (
        Column("arm", "arm"),
        Column("scheme", "scheme"),
        Column("learning_rate", "rate", kind="number"),
        Column("trials", "trials", kind="count"),
        Column("tuned_by", "tuned by"),
        *((Column("done", "done", kind="count"),) if runs is not None else ()),
        Column("planned", "planned", kind="count"),
    )
    return Table("arms", "Arms", columns, tuple(rows))


def _plan_lines(plan: Plan, hash_: str) -> list[str]:
    seeds = plan["seeds"]
    return [
        str(plan["hypothesis"]),
        f"Preset {plan['preset']['name']}, {plan['horizon_tokens']:,} tokens per run, seeds {seeds[0]} to {seeds[-1]}, "
        f"smallest effect of interest {plan['smallest_effect']:g} nats; made {plan['created']}.",
        f"Plan: {hash_}",
    ]


def _done_notice(plan: Plan, runs: Sequence[Mapping[str, Any]]) -> Notice:
    if not runs:
        return Notice("Nothing is trained yet", (f"attnres study run {plan['name']}",))
    planned = [run for run in runs if run["label"] == "planned"]
    beyond = [run["name_of_run"] for run in runs if run["label"] == "exploratory"]
    finished = sum(run["status"] == "finished" for run in planned)
    total = len(plan["arms"]) * len(plan["seeds"])
    lines = [f"{finished} of {counted(total, 'planned run')} finished."]
    if beyond:
        lines.append(f"Exploratory, beyond the plan: {', '.join(beyond)}.")
    if finished < total:
        lines.append(f"Go on with: attnres study run {plan['name']}")
    else:
        lines.append(f"Compare with: attnres compare {plan['name']}")
    return Notice("Done so far", tuple(lines))


def _power_notice(plan: Plan, power: Power | None) -> Notice:
    """What the seeds can show, and how many the smallest effect of interest needs."""
    n = len(plan["seeds"])
    if power is None:
        return Notice(
            "What it can show is not known",
            ("Say how far paired differences scatter over seeds: --sd NATS, or --sd-from GROUP.",),
            "warning",
        )
    over = f", corrected over {power.tested} arms" if power.tested > 1 else ""
    lines = [
        f"With a standard deviation of {nats(power.standard_deviation)} nats between pairs{over}, {counted(n, 'seed')} "
        f"show a difference of {nats(power.smallest_shown)} nats or more four times in five."
    ]
    effect = f"The smallest effect of interest, {power.smallest_effect:g} nats,"
    if power.seeds_needed is None:
        lines.append(f"{effect} would need more seeds than anybody trains.")
    elif power.is_enough:
        lines.append(f"{effect} needs {power.seeds_needed}: enough are planned.")
    else:
        lines.append(f"{effect} needs {power.seeds_needed}: too few are planned, and it would probably not be shown.")
    return Notice("What it can show", tuple(lines), "result" if power.is_enough else "warning")


def _tuning_notices(plan: Plan) -> list[Notice]:
    """Where the arms did not get the same number of trials; nobody tuned any: said, too."""
    budgets = {arm["label"]: arm["tuning"]["trials"] * arm["tuning"]["seeds"] for arm in plan["arms"]}
    if len(set(budgets.values())) > 1:
        said = ", ".join(f"{label} {trials}" for label, trials in budgets.items())
        line = f"Runs spent on tuning: {said}. The arm with more of them has an advantage that is not its own."
        return [Notice("The arms were not tuned alike", (line,), "warning")]
    if not any(budgets.values()):
        line = "All arms train at the preset's rate, which may suit one better: attnres tune finds each its own."
        return [Notice("No arm is tuned", (line,), "warning")]
    return []


def _payload(plan: Plan, hash_: str, power: Power | None) -> dict[str, Any]:
    known = None if power is None else {**asdict(power), "is_enough": power.is_enough}
    return {"study": plan["name"], "hash": hash_, "plan": dict(plan), "power": known}
