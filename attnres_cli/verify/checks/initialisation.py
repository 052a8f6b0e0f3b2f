"""Queries are zero, and key gains one, after every piece of initialisation code has run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attnres_cli.residual.depth_attention import DepthAttention
from attnres_cli.residual.parameters import Role
from attnres_cli.verify.finding import Finding, skipped, within
from attnres_cli.verify.subjects import Subject

ORDER = 40
TITLE = "initialisation"

WANTED = {Role.DEPTH_QUERY: ("largest query", 0.0), Role.DEPTH_GAIN: ("key gains, distance from 1", 1.0)}


def check(subjects: Sequence[Subject]) -> Iterator[Finding]:
    for subject in subjects:
        reason = None
        if not isinstance(subject.residual, DepthAttention):
            reason = "not a softmax over depth"
        elif subject.residual.config.query_init_std > 0:
            reason = f"query_init_std is {subject.residual.config.query_init_std:g}"
        groups = {} if reason else subject.residual.parameter_groups()
        values = dict(subject.model().residual.named_parameters())
        for role, (aspect, wanted) in WANTED.items():
            names = [name for name, group in groups.items() if group.role is role]
            if not names:
                yield skipped(aspect, reason or "it has none", subject=subject.name)
                continue
            apart = {name: float((values[name].detach() - wanted).abs().max()) for name in names}
            worst = max(names, key=lambda name: apart[name])
            yield within(
                aspect,
                apart[worst],
                0.0,
                subject=subject.name,
                detail=f"{worst} is not {wanted:g} when training starts",
            )
