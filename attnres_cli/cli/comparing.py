"""From the words of a command line to a comparison: for every command that compares runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from attnres_cli.errors import ExitCode, UserError
from attnres_cli.runs.lookup import below_root, name_below

if TYPE_CHECKING:
    from attnres_cli.report.compared_run import ComparedRun
    from attnres_cli.report.comparison import Comparison
    from attnres_cli.report.references import Reference


def comparison_of(
    refs: list[str], baseline: str | None, root: Path, *, may_stand_alone: bool = False
) -> Comparison:  # fmt: skip
    """The runs in the arms they belong to, untimed: by scheme where a group was named or seeds can be paired, else by
    letter. may_stand_alone: whether a single run or arm will do."""
    from attnres_cli.report.compared_run import letter, read_run
    from attnres_cli.report.comparison import Comparison
    from attnres_cli.report.group_plan import read_plan
    from attnres_cli.report.grouping import group_by_arm, have_pairs
    from attnres_cli.report.origins import read_origins
    from attnres_cli.report.references import find_runs, in_order

    found = find_runs(refs, root)
    read = [read_run(each.run, label) for each, label in zip(found, _labels(found, root), strict=True)]
    order = in_order(found, read)
    found, read = [found[index] for index in order], [read[index] for index in order]
    is_group = any(each.group is not None for each in found)
    first, arm = 0, None
    if baseline is not None:
        found, read, first, arm = _with_baseline(found, read, baseline, root, is_group=is_group)
    if len(found) < 2 and not may_stand_alone:
        raise _usage("A comparison needs at least two runs.", hint=f"attnres runs show {refs[0]}")
    if is_group or arm is not None or have_pairs(read):
        grouping = group_by_arm(read, baseline=arm or read[first], groups=[each.group for each in found])
        enough = may_stand_alone or any(each.arm is None for each in grouping.set_aside)
        if len(grouping.arms) > 1 or (grouping.arms and enough):
            plan = read_plan((each.run.path.parent for each in found if each.group is not None), grouping.arms)
            return replace(
                Comparison.of_groups(grouping, bench_note="--no-bench"), plan=plan, origins=read_origins(read)
            )
        if is_group and not may_stand_alone:
            of_one = f"; these {len(read)} runs are all {grouping.arms[0].label}" if grouping.arms else ""
            raise _usage(f"A comparison needs at least two arms{of_one}.", hint=below_root("attnres runs ls", root))
    lettered = [replace(run, label=letter(index)) for index, run in enumerate(read)]
    return replace(Comparison.of_runs(lettered, first, bench_note="--no-bench"), origins=read_origins(read))


def _labels(found: list[Reference], root: Path) -> list[str]:
    """Names that tell the runs apart: of their folders, with the group's before it where one name occurs twice."""
    names = [each.run.name for each in found]
    return names if len(set(names)) == len(names) else [name_below(each.run, root) for each in found]


def _with_baseline(
    found: list[Reference], read: list[ComparedRun], baseline: str, root: Path, *, is_group: bool
) -> tuple[list[Reference], list[ComparedRun], int, str | None]:
    """The runs with the baseline among them, its place, and the arm's name where that was what was named."""
    from attnres_cli.errors import nearest_name
    from attnres_cli.report.compared_run import read_run
    from attnres_cli.report.grouping import arm_names, have_pairs
    from attnres_cli.report.references import Reference
    from attnres_cli.runs.lookup import find_run

    arms = {name for name in arm_names(read, [each.group for each in found]) if name is not None}
    if baseline in arms and (is_group or have_pairs(read)):
        return found, read, 0, baseline
    try:
        run = find_run(baseline, root)
    except UserError:
        if not is_group:
            raise
        raise UserError(
            f"There is no arm and no run '{baseline}'.",
            where="--baseline",
            expected=", ".join(sorted(arms)),
            nearest=nearest_name(baseline, arms),
        ) from None
    if run not in [each.run for each in found]:
        found, read = [Reference(run), *found], [read_run(run, name_below(run, root)), *read]
    return found, read, [each.run for each in found].index(run), None


def with_bench(comparison: Comparison, root: Path, *, rebench: bool) -> Comparison:
    """The comparison with its bench; whatever goes wrong in the bench is a note, because the other tables do not need
    it."""
    from attnres_cli.bench.stored import bench_of_runs
    from attnres_cli.report.comparison import SideBySide
    from attnres_cli.runs.directory import RunDirectory

    def announce(expected_seconds: float | None) -> None:
        expected = "" if expected_seconds is None else f"about {max(1, round(expected_seconds))} s, "
        typer.echo(f"timing the runs' training steps in turn ({expected}once; --no-bench skips it) …", err=True)

    arms = [comparison.baseline, *comparison.others]  # the baseline first, then as given
    runs = [RunDirectory(arm.lead.path) for arm in arms]
    try:
        stored = bench_of_runs(runs, root=root, again=rebench, before_measuring=announce)
    except Exception as error:
        reason = str(error).strip().splitlines()
        note = f"the bench failed: {reason[0] if reason else type(error).__name__}"
        return replace(comparison, bench_note=note)
    names = {arm.label: name for arm, name in zip(arms, stored.arm_names, strict=True) if name is not None}
    return replace(comparison, bench=SideBySide(stored.result, names, stored.measured_now), bench_note=None)


def _usage(what: str, **details: str | None) -> UserError:
    return UserError(what, exit_code=ExitCode.USAGE, **details)
