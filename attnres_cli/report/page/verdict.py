"""The top of the page: what it comes to in a sentence, and every pair of runs as a dot beside its interval."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from attnres_cli.report import palette
from attnres_cli.report.contents import Report
from attnres_cli.report.headlines import Claim, Kind
from attnres_cli.report.page.elements import Html, tag
from attnres_cli.report.phrases import counted, nats

# Shape tells outcomes apart where colours do not.
_SIGNS: dict[Kind, str] = {
    "better": "▼", "worse": "▲", "same": "=", "not shown": "~", "lower": "▽", "higher": "△", "said": "•",
    "no verdict": "–",
}  # fmt: skip
# More than this and the whole sentences wait to be unfolded: the claims above them say what they come to.
MOST_OPEN_SENTENCES = 3
# Characters of a name that a headline keeps on one line.
MOST_UNBROKEN = 20
# Room on either side of the outermost mark, as a share of the width.
_MARGIN = 0.08
# Nearer to zero than this share, the number of an end would run into the zero.
_TOO_NEAR = 0.14
_DOTS_Y, _BAR_Y, _STRIP_HEIGHT = 10, 22, 32


def verdict_block(report: Report) -> Html:
    """The section "Verdict": headline, a strip of differences, the claims with their figures, all sentences."""
    drawn = [claim for claim in report.claims if claim.differences]
    sentences = [claim.sentence for claim in report.claims if claim.sentence]
    return tag(
        "section",
        tag("h2", "Verdict", id="verdict"),
        tag("p", *_with_whole_names(report), class_="headline"),
        _claims(report.claims, report.headline),
        _strips(drawn, report.baseline) if drawn and report.baseline else None,
        _whole(sentences),
        class_="verdict",
        aria_labelledby="verdict",
    )


def _with_whole_names(report: Report) -> Iterator[Html | str]:
    """The headline, in which no line ends inside a short name."""
    names = {claim.arm for claim in report.claims} | {report.baseline or ""}
    short = sorted((name for name in names if 0 < len(name) <= MOST_UNBROKEN), key=len, reverse=True)
    if not short:
        yield report.headline
        return
    for part in re.split(f"({'|'.join(map(re.escape, short))})", report.headline):
        yield tag("span", part, class_="name") if part in short else part


def _claims(claims: Sequence[Claim], headline: str) -> Html | None:
    """Those whose words are the headline have nothing left to say but their figures."""
    items = []
    for claim in claims:
        is_headline = claim.words == headline
        if is_headline and not claim.figures:
            continue
        words = None if is_headline else tag("strong" if claim.figures else "span", claim.words)
        figures = tag("span", claim.figures, class_="figures") if claim.figures else None
        sign = tag("span", _SIGNS[claim.kind], class_="sign", aria_hidden="true")
        items.append(tag("li", sign, tag("span", words, " " if words and figures else None, figures)))
    return tag("ul", *items, class_="claims") if items else None


def _whole(sentences: Sequence[str]) -> Html | None:
    if not sentences:
        return None
    return tag(
        "details",
        tag("summary", "The verdict in full, with what it rests on"),
        *(tag("p", sentence) for sentence in sentences),
        open=len(sentences) <= MOST_OPEN_SENTENCES,
    )


# ---------------------------------------------------------------------- the strips


def _strips(claims: Sequence[Claim], baseline: str) -> Html:
    """One axis for all arms, zero on it: what lies left of it has the lower loss."""
    values = [0.0, *(value for claim in claims for value in (*claim.differences, claim.low, claim.high) if value)]
    low, high = min(values), max(values)
    span = (high - low) or 1.0

    def at(value: float) -> str:
        return f"{100 * (_MARGIN + (1 - 2 * _MARGIN) * (value - low) / span):.2f}%"

    rows = [
        tag("li", tag("span", claim.arm, class_="arm"), _strip(claim, at(0.0), [at(v) for v in claim.differences], at))
        for claim in claims
    ]
    ends = tag(
        "p",
        tag("span", f"lower loss than {baseline}", class_="lower"),
        tag("span", "higher loss", class_="higher"),
        class_="ends",
        aria_hidden="true",
    )
    scale = tag(
        "p",
        *(
            tag("span", "0" if value == 0 else nats(value, signed=True), style=f"left:{at(value)}")
            for value in dict.fromkeys((low, 0.0, high))
            if value == 0 or abs(value) / span > _TOO_NEAR
        ),
        class_="scale",
        aria_hidden="true",
    )
    caption = (
        "Validation loss minus the baseline's, nats per token, at the end of the schedule. A dot is a pair of runs "
        "with the same seed; the bar is the mean over the pairs with its 95 % interval."
    )
    return tag(
        "figure",
        tag("ul", *rows),
        scale,
        ends,
        tag("figcaption", caption),
        class_="strips",
        aria_label=f"Loss differences from {baseline}",
    )


def _strip(claim: Claim, zero: str, dots: Sequence[str], at: object) -> Html:
    assert callable(at), "a scale"
    assert claim.mean is not None, "a claim with pairs has a mean"
    colour = f"var(--arm-{claim.place % palette.MOST_COLOURS})"
    ends = [] if claim.low is None or claim.high is None else [at(claim.low), at(claim.high)]
    words = (
        f"{claim.arm}: {counted(len(claim.differences), 'pair')}, "
        + ", ".join(nats(value, signed=True) for value in claim.differences)
        + f"; mean {nats(claim.mean, signed=True)}"
        + ("" if claim.low is None or claim.high is None else f", interval {nats(claim.low, signed=True)} to "
           f"{nats(claim.high, signed=True)}")
        + " nats"
    )  # fmt: skip
    bar = [tag("line", x1=ends[0], x2=ends[1], y1=_BAR_Y, y2=_BAR_Y, stroke=colour, stroke_width=3)] if ends else []
    caps = [tag("line", x1=x, x2=x, y1=_BAR_Y - 4, y2=_BAR_Y + 4, stroke=colour, stroke_width=2) for x in ends]
    return tag(
        "svg",
        tag("line", x1=zero, x2=zero, y1=0, y2=_STRIP_HEIGHT, class_="zero"),
        *(tag("circle", cx=x, cy=_DOTS_Y, r=4, fill=colour, fill_opacity="0.7") for x in dots),
        *bar,
        *caps,
        tag("circle", cx=at(claim.mean), cy=_BAR_Y, r=5, fill=colour),
        height=_STRIP_HEIGHT,
        role="img",
        aria_label=words,
    )
