"""The figures of an arm by the names that conditions and JSON use; each is one that a table shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attnres_cli.analysis.conditions import WHERE, Condition, Name
from attnres_cli.errors import ExitCode, UserError, nearest_name
from attnres_cli.report.arms import Arm
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.paired_verdicts import PairedVerdict, paired_verdicts
from attnres_cli.report.tables.cost import peak_bytes
from attnres_cli.report.verdicts import Verdict, verdicts
from attnres_cli.runs.metrics import number

# Name → what it is. None stands for a figure that was not recorded or measured, or has no meaning here.
METRICS: Mapping[str, str] = {
    "loss": "validation loss at the end of the schedule, nats per token; mean over the runs that ended",
    "perplexity": "the same for perplexity",
    "bits_per_byte": "the same for bits per byte",
    "runs": "number of runs that ended",
    "n": "number of pairs with the baseline",
    "delta": "mean over the pairs of the loss minus the baseline's",
    "low": "lower end of its 95 % interval; where there is a verdict, as all figures of the test",
    "high": "upper end",
    "p": "of the paired t-test",
    "p_holm": "the same, corrected over all arms that were tested",
    "standard_deviation": "of the differences of the pairs",
    "smallest_detectable": "the difference that so many pairs with this spread show four times in five",
    "delta_flops": "delta at equal FLOPs",
    "delta_seconds": "delta at equal seconds",
    "flops_ratio": "training FLOPs per token over the baseline's",
    "step_ratio": "time of a training step over the baseline's",
    "step_seconds": "median time of a training step",
    "tokens_per_second": "tokens of a step over step_seconds",
    "peak_bytes": "weights, optimiser state, and the most that one step held on top",
    "peak_ratio": "peak_bytes over the baseline's",
}
BASELINE = "baseline"
Figures = Mapping[str, Mapping[str, float | None]]


def figures(comparison: Comparison) -> Figures:
    """Every figure of METRICS of every arm, by the arm's label."""
    judged: Sequence[Verdict | PairedVerdict]
    judged = paired_verdicts(comparison) if comparison.by_seed else verdicts(comparison)
    by_arm = {(each.label if isinstance(each, Verdict) else each.arm): each for each in judged}
    return {arm.label: _figures(comparison, arm, by_arm.get(arm.label)) for arm in comparison.arms}


def check_names(conditions: Sequence[Condition], comparison: Comparison) -> None:
    """Raise UserError for a name that this comparison cannot have, before anything is measured."""
    aliases = _aliases(comparison)
    for condition in conditions:
        for name in condition.names:
            _found(name, aliases)


def lookup(comparison: Comparison) -> Callable[[Name], float]:
    """The value of a name in a condition: arm.metric; baseline.metric is the baseline's arm.

    Raises UserError for a name that nothing has and for a figure that is not there.
    """
    known, aliases = figures(comparison), _aliases(comparison)

    def value_of(name: Name) -> float:
        label, metric = _found(name, aliases)
        value = known[label][metric]
        if value is None:
            raise UserError(
                f"{'.'.join(name)} is not known.",
                where=WHERE,
                expected=METRICS[metric],
                hint="see the figures of every arm with --json",
                exit_code=ExitCode.INPUT,
            )
        return float(value)

    return value_of


def _figures(
    comparison: Comparison, arm: Arm, verdict: Verdict | PairedVerdict | None
) -> dict[str, float | None]:  # fmt: skip
    bench = comparison.bench
    timed, base = (bench.arm(each.label) if bench else None for each in (arm, comparison.baseline))
    seconds = number(timed["derived"], "median_wall_seconds") if timed else None
    flops, tokens = comparison.flops_ratio(arm), number(arm.facts.values, "train.tokens_per_step")
    ended = [run for run in arm.runs if run.end_loss is not None]
    is_baseline = arm is comparison.baseline
    found: dict[str, float | None] = dict.fromkeys(METRICS)
    if ended:
        for key, column in (("loss", "loss"), ("perplexity", "perplexity"), ("bits_per_byte", "bits_per_byte")):
            found[key] = arm.mean(lambda run, column=column: number(run.end_evaluation, column))  # type: ignore[misc]
    found |= {
        "runs": len(ended),
        "n": None if is_baseline else 0,
        "flops_ratio": flops and flops[0],
        "step_ratio": 1.0 if is_baseline and timed else timed["derived"]["wall_ratio"]["median"] if timed else None,
        "step_seconds": seconds,
        "tokens_per_second": tokens / seconds if tokens and seconds else None,
        "peak_bytes": peak_bytes(timed),
        "peak_ratio": _over(peak_bytes(timed), peak_bytes(base)),
    }
    return found | (_compared(verdict) if verdict is not None else {})


def _compared(verdict: Verdict | PairedVerdict) -> dict[str, float | None]:
    if isinstance(verdict, Verdict):
        return {"n": int(verdict.delta_nats is not None), "delta": verdict.delta_nats}
    difference = verdict.difference
    found: dict[str, float | None] = {"n": len(verdict.seeds), "smallest_detectable": verdict.smallest_detectable}
    if difference is not None:
        found |= {"delta": difference.mean, "standard_deviation": difference.standard_deviation}
    if difference is not None and verdict.has_verdict:
        found |= {"low": difference.low, "high": difference.high, "p": difference.p, "p_holm": verdict.p_holm}
    for each in verdict.at_equal:
        found[f"delta_{each.budget.lower()}"] = None if each.difference is None else each.difference.mean
    return found


def _aliases(comparison: Comparison) -> dict[str, str]:
    """Arm by every name that it may have in a condition: its label, "baseline", and its scheme where no other arm has
    the same."""
    schemes = [arm.scheme for arm in comparison.arms]
    by_scheme = {arm.scheme: arm.label for arm in comparison.arms if arm.scheme and schemes.count(arm.scheme) == 1}
    return by_scheme | {BASELINE: comparison.baseline.label} | {arm.label: arm.label for arm in comparison.arms}


def _found(name: Name, aliases: Mapping[str, str]) -> tuple[str, str]:
    """(label of the arm, metric)"""
    arm, metric = ".".join(name[:-1]), name[-1]
    if arm not in aliases:
        raise _fault(
            f"There is no arm '{arm}' in this comparison.",
            expected=", ".join(aliases),
            nearest=nearest_name(arm, aliases),
            hint="a minus sign between two names needs a space before it" if "-" in arm and "." in arm else None,
        )
    if metric not in METRICS:
        raise _fault(
            f"An arm has no figure '{metric}'.", expected=", ".join(METRICS), nearest=nearest_name(metric, METRICS)
        )
    return aliases[arm], metric


def _over(value: float | None, divisor: float | None) -> float | None:
    return value / divisor if value is not None and divisor else None


def _fault(what: str, **details: str | None) -> UserError:
    return UserError(what, where=WHERE, exit_code=ExitCode.USAGE, **details)
