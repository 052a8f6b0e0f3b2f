"""Loss while training: validation loss over tokens, FLOPs and seconds, the paired difference to the baseline, and the
training loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from attnres_cli.report.arms import Arm
from attnres_cli.report.compare import loss_curves
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.picture import Axis, Lines, Picture, Series, Views
from attnres_cli.report.pictures._series import (
    in_order,
    mean_curve,
    seeds_words,
    sentences,
    series_of,
    told,
)
from attnres_cli.runs.metrics import number

ORDER = 10
TOKENS = Axis("training tokens")
FLOPS = Axis("training FLOPs")
SECONDS = Axis("training time", "seconds")
# Losses fall steeply at first; a scale that shows all of it flattens the end, which is what one wants to compare.
SKIPPED_SHARE = 0.25
# Of a curve that was logged at every step so many means are kept: more cannot be seen.
MOST_POINTS = 400

Points = Mapping[float, float]


def build(comparison: Comparison) -> list[Picture]:
    kind, _ = loss_curves(comparison)
    found: list[Picture] = []
    if loss := _loss(comparison, kind):
        found.append(loss)
    if difference := _difference(comparison, kind):
        found.append(difference)
    if kind == "validation" and (training := _over_tokens(comparison, "training", "training-loss")):
        found.append(training)
    return found


# ---------------------------------------------------------------------- the loss itself


def _loss(comparison: Comparison, kind: str) -> Views | None:
    """Over each horizontal axis that is known for every arm; what is left out is said."""
    tokens = _over_tokens(comparison, kind, "loss")
    if tokens is None:
        return None
    views, missing = {TOKENS.label: tokens}, []
    for axis, scale_of, why in (
        (FLOPS, _flops_per_token, "a manifest does not say"),
        (SECONDS, _seconds_per_token, comparison.bench_note or "no bench of the arms"),
    ):
        scales = [scale_of(comparison, arm) for arm in in_order(comparison)]
        known = [scale for scale in scales if scale is not None]
        if len(known) == len(scales):
            views[axis.label] = _stretched(tokens, axis, known)
        else:
            missing.append(f"{axis.label} left out: {why}")
    said = sentences(*missing)
    return Views(
        "loss",
        tokens.title,
        "horizontal axis",
        tuple(views),
        tuple(replace(view, caption=f"{view.caption} {said}".strip()) for view in views.values()),
    )


def _over_tokens(comparison: Comparison, kind: str, key: str) -> Lines | None:
    series: list[Series] = []
    counts: list[int] = []
    for arm in in_order(comparison):
        curves = [curve for run in arm.counted if (curve := _points(run, kind))]
        common = sorted(set.intersection(*(set(curve) for curve in curves))) if curves else []
        if common:
            mean = mean_curve([[each[tokens] for tokens in common] for each in curves])
            series.append(series_of(comparison, arm, common, mean))
            counts.append(len(curves))
    if not series:
        return None
    title = f"{kind.capitalize()} loss"
    caption = sentences(
        seeds_words(comparison, counts),
        "the spread over seeds is mostly shared by the arms and cancels in the paired difference"
        if max(counts) > 1
        else "",
        f"mean over {MOST_POINTS} stretches of the training" if kind == "training" and _is_thinned(comparison) else "",
    )
    return Lines(
        key, title, TOKENS, Axis(f"{kind} loss", "nats per token"), tuple(series), told(title, series, TOKENS), caption,
        y_range=_later_part(series),
    )  # fmt: skip


def _points(run: ComparedRun, kind: str) -> Points:
    """Tokens → loss; a long training curve as means over equal stretches, at the last token of each."""
    points = run.points(kind)
    if kind == "validation" or len(points) <= MOST_POINTS:
        return dict(points)
    bounds = [round(index * len(points) / MOST_POINTS) for index in range(MOST_POINTS + 1)]
    parts = [points[low:high] for low, high in zip(bounds, bounds[1:], strict=False)]
    return {part[-1][0]: sum(loss for _, loss in part) / len(part) for part in parts}


def _is_thinned(comparison: Comparison) -> bool:
    return any(len(run.train_rows) > MOST_POINTS for run in comparison.runs)


def _later_part(series: Sequence[Series], *, always: Sequence[float] = ()) -> tuple[float, float] | None:
    """What the curves span after the first quarter, and the values that always belong to it. An interval may widen it
    by twice the spread of the curves on either side."""
    first, last = min(each.x[0] for each in series), max(each.x[-1] for each in series)
    start = first + SKIPPED_SHARE * (last - first)

    def later(pick: Callable[[Series], Sequence[float | None]]) -> list[float]:
        return [y for each in series for x, y in zip(each.x, pick(each), strict=True) if x >= start and y is not None]

    y = [*always, *later(lambda each: each.y)]
    room = 2 * (max(y) - min(y))
    if not room:
        return None
    low = max(min([*y, *later(lambda each: each.low or each.y)]), min(y) - room)
    high = min(max([*y, *later(lambda each: each.high or each.y)]), max(y) + room)
    margin = 0.05 * (high - low)
    return low - margin, high + margin


def _stretched(tokens: Lines, axis: Axis, scales: Sequence[float]) -> Lines:
    """The same curves over tokens × what the arm takes per token."""
    series = tuple(replace(each, x=tuple(x * scales[each.place] for x in each.x)) for each in tokens.series)
    how = "the step time is that of an interleaved bench" if axis is SECONDS else "mixing over depth counted"
    return replace(
        tokens, x=axis, series=series, alternative=_spent(tokens.title, series, axis), y_range=_later_part(series),
        caption=f"{tokens.caption} {sentences(how)}".strip(),
    )  # fmt: skip


def _spent(title: str, series: Sequence[Series], axis: Axis) -> str:
    unit = axis.unit or axis.label.removeprefix("training ")
    parts = [f"{each.label} reaches {y:.4g} after {each.x[-1]:.3g} {unit}" for each in series for y in each.y[-1:]]
    return f"{title} over {axis.label}: {'; '.join(parts)}."


def _flops_per_token(comparison: Comparison, arm: Arm) -> float | None:
    return arm.lead.training_flops_per_token


def _seconds_per_token(comparison: Comparison, arm: Arm) -> float | None:
    timed = comparison.bench.arm(arm.label) if comparison.bench else None
    seconds = number(timed["derived"], "median_wall_seconds") if timed else None
    tokens = number(arm.facts.values, "train.tokens_per_step")
    return seconds / tokens if seconds and tokens else None


# ---------------------------------------------------------------------- the paired difference


def _difference(comparison: Comparison, kind: str) -> Lines | None:
    """Each arm minus the baseline at equal tokens: paired by seed, or of single runs as they are."""
    series = [found for arm in comparison.others if (found := _against_baseline(comparison, arm, kind))]
    if not series:
        return None
    title = f"{kind.capitalize()} loss minus that of {comparison.baseline.title}"
    if comparison.by_seed:
        counts = sorted({len(comparison.pairings[arm.label].pairs) for arm in comparison.others} - {0})
        number_of = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
        how = f"mean over {number_of} pairs of equal seed, band: its 95 % interval (Student's t)"
    else:
        how = "single runs: no interval"
    caption = sentences(how, "below zero: lower than the baseline", "before the decay has ended nothing is decided")
    points = [(y, x, each.label) for each in series for x, y in zip(each.x, each.y, strict=True) if y is not None]
    largest, where, label = max(points, key=lambda point: abs(point[0]))
    ends = "; ".join(f"{each.label} ends at {_with_interval(each)}" for each in series)
    said = f"{title}: {ends}. The largest is {largest:+.3g}, of {label} at {where:,.0f} tokens."
    return Lines(
        "loss-difference", title, TOKENS, Axis("Δ loss", "nats per token"), tuple(series), said, caption,
        y_range=_later_part(series, always=(0.0,)), zero=True,
    )  # fmt: skip


def _against_baseline(comparison: Comparison, arm: Arm, kind: str) -> Series | None:
    if comparison.by_seed:
        pairs = [(pair.ours, pair.theirs) for pair in comparison.pairings[arm.label].pairs]
    else:
        pairs = [(arm.lead, comparison.baseline.lead)]
    curves = [(_points(ours, kind), _points(theirs, kind)) for ours, theirs in pairs]
    if not curves:
        return None
    common = sorted(set.intersection(*(set(curve) for pair in curves for curve in pair)))
    if not common:
        return None
    differences = [[ours[tokens] - theirs[tokens] for tokens in common] for ours, theirs in curves]
    return series_of(comparison, arm, common, mean_curve(differences))


def _with_interval(series: Series) -> str:
    y, low, high = (side[-1] if side else None for side in (series.y, series.low, series.high))
    text = f"{y:+.4f}"
    return text if low is None or high is None else f"{text} (95 % interval {low:+.4f} to {high:+.4f})"
