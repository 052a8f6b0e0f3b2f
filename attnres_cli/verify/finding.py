"""What a check says: one aspect of one subject, with the number behind the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# "shown": a number for the reader that nobody judges.
Status = Literal["ok", "fails", "does not apply", "shown"]


@dataclass(frozen=True)
class Finding:
    """aspect: what was looked at. subject: which scheme or back end, "" for a user's module.

    measured, allowed: the deviation and its limit, None where the aspect is not a number. detail: one sentence: the
    likely fault, or why the aspect does not apply.
    """

    aspect: str
    status: Status
    subject: str = ""
    measured: float | None = None
    allowed: float | None = None
    detail: str | None = None


def within(
    aspect: str, measured: float, allowed: float, *, subject: str = "", detail: str | None = None, ok: str | None = None
) -> Finding:
    """ok where `measured` is at most `allowed` (a NaN never is). detail: said where it fails; ok: said where it
    holds."""
    holds = measured <= allowed
    return Finding(aspect, "ok" if holds else "fails", subject, measured, allowed, ok if holds else detail)


def judged(aspect: str, holds: bool, *, subject: str = "", detail: str | None = None, ok: str | None = None) -> Finding:
    """An aspect without a number."""
    return Finding(aspect, "ok" if holds else "fails", subject, detail=ok if holds else detail)


def skipped(aspect: str, reason: str, *, subject: str = "") -> Finding:
    return Finding(aspect, "does not apply", subject, detail=reason)


def shown(aspect: str, measured: float | None, *, subject: str = "", detail: str | None = None) -> Finding:
    return Finding(aspect, "shown", subject, measured, detail=detail)
