"""Pictures of sweeps on a phone and on a desk: every name that an axis has is there, whole, on the picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest

from attnres_cli.report import palette
from attnres_cli.report.picture import Heat, all_stills, still
from attnres_cli.report.pictures_of_sweeps import pictures_of_sweep
from tests import fabricated_sweep
from tests.browser.conftest import Tab, until, written
from tests.report.test_hops_report import document as hops_document
from tests.report.test_tune_report import bowl, tune_document

PAIR = ("prenorm", "attnres-block", "attnres-full")
MANY = ("prenorm", *(f"attnres-block num_blocks={n} query_lr_factor=1" for n in (2, 4, 8, 16, 32, 64)), "W" * 40)
SIZES = (1.0, 2.0, 4.0)


def _arms(labels: tuple[str, ...]) -> dict[str, Any]:
    losses = {label: (2.0 + 0.01 * place, 2.01 + 0.012 * place, 2.0) for place, label in enumerate(labels)}
    return fabricated_sweep.grid_document({"d64": losses, "d128": losses}, [{"d_model": 64}, {"d_model": 128}])


DOCUMENTS: dict[str, dict[str, Any]] = {
    "a pair": _arms(PAIR),
    "many arms": _arms(MANY),
    "shapes": fabricated_sweep.sweep_document(
        {(None, ratio): ([2.0, 2.1, 1.9],) * len(MANY[:4]) for ratio in SIZES}, MANY[:4]
    ),
    "shapes and heads": fabricated_sweep.sweep_document(
        {(heads, ratio): (2.0 + ratio / 10 + heads, 1.9 + heads) for heads in (0.5, 1.0) for ratio in SIZES}
    ),
    "hops": hops_document(),
    "tune": tune_document({"plain": bowl(4), MANY[1]: bowl(0, 1.95)}),
}


@pytest.fixture(scope="module", params=list(DOCUMENTS))
def sweep(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """(the sweep's document, its report)."""
    root: Path = tmp_path_factory.mktemp("swept")
    folder = root / "sweep"
    folder.mkdir()
    (folder / "sweep.json").write_text(json.dumps(DOCUMENTS[request.param]))
    return DOCUMENTS[request.param], written(root, "sweep")


# What is wrong with the words of a plot, in words.
FAULTS = """(plot) => {
    const pixel = 1, box = (each) => each.getBoundingClientRect();
    const within = box(plot.querySelector(".main-svg")), field = box(plot.querySelector(".nsewdrag"));
    const words = (selector) => [...plot.querySelectorAll(selector)]
        .filter((each) => each.textContent.trim() && !each.closest(".hoverlayer"));
    const meet = (one, other) => one.left < other.right - pixel && other.left < one.right - pixel
        && one.top < other.bottom - pixel && other.top < one.bottom - pixel;
    const found = [];
    for (const each of words("text")) {
        const at = box(each);
        const isHidden = at.width === 0 || getComputedStyle(each).opacity === "0";
        const isOutside = at.left < within.left - pixel || at.right > within.right + pixel
            || at.top < within.top - pixel || at.bottom > within.bottom + pixel;
        if (isHidden || isOutside) found.push(`${isHidden ? "hidden" : "outside"}: ${each.textContent}`);
    }
    const around = words(".xtick text, .ytick text, .xtitle, .gtitle, .cbaxis text");
    around.forEach((each, place) => {
        if (meet(box(each), field)) found.push(`on the field: ${each.textContent}`);
        for (const other of around.slice(place + 1)) {
            if (meet(box(each), box(other))) found.push(`${each.textContent} on ${other.textContent}`);
        }
    });
    return found;
}"""


@pytest.mark.parametrize(("width", "theme"), [(400, "light"), (1280, "dark")])
def test_every_name_is_there_and_whole(
    tab: Tab, sweep: tuple[dict[str, Any], Path], width: int, theme: Literal["light", "dark"]
) -> None:
    document, path = sweep
    tab.open(path)
    page = tab.page
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    pictures = pictures_of_sweep(document)
    assert pictures
    for picture in pictures:
        figure = page.locator(f"[data-picture='{picture.key}']")
        until(
            page,
            """([key, ground]) => {
                const plot = document.querySelector(`[data-picture='${key}'] .plot`);
                plot.scrollIntoView();
                const svg = plot.querySelector(".main-svg");
                return svg?.clientWidth === plot.clientWidth && plot.layout.paper_bgcolor === ground;
            }""",
            [picture.key, palette.LIGHT_BACKGROUND if theme == "light" else palette.DARK_BACKGROUND],
        )
        assert figure.locator(".plot").evaluate(FAULTS) == [], picture.key
        view = still(picture)
        ends = (view.columns, view.rows) if isinstance(view, Heat) else (view.x.names, view.y.names)
        for side, names in zip("xy", ends, strict=True):
            shown = figure.locator(f".{side}tick text").all_text_contents()
            if names:
                assert sorted(map(_letters, shown)) == sorted(map(_letters, names))
        curves = {series.label for each in all_stills(picture) if not isinstance(each, Heat) for series in each.series}
        assert curves <= {each.strip() for each in figure.locator(".legend li").all_inner_texts()}
    assert tab.said == []
    assert page.evaluate("document.documentElement.scrollWidth") == width


def _letters(name: str) -> str:
    """A name without what separates its lines."""
    return "".join(name.split())
