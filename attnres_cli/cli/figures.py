"""`attnres figures RUN… | SWEEP -o FOLDER`: pictures of runs and sweeps as image files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.compare import complete_runs_and_groups
from attnres_cli.cli.options import DEFAULT_RUNS_DIR, JsonOption, RunsRootOption, complete_run
from attnres_cli.errors import ExitCode, UserError, nearest_name

if TYPE_CHECKING:
    from attnres_cli.report.comparison import Comparison
    from attnres_cli.report.document import Document
    from attnres_cli.report.drawing.images import ImageFormat
    from attnres_cli.report.picture import Heat, Lines, Picture
    from attnres_cli.sweep.results import SweepDirectory

app = typer.Typer()

FORMATS = ("png", "svg", "pdf")
DEFAULT_FOLDER = Path("figures")
NOT_TIMED = "no stored bench of these runs (attnres compare makes one)"


def complete_image_format(incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete)]


@dataclass(frozen=True)
class _Image:
    """One image to draw. stem: of its file. view: what tells it from the other views of its picture, if it has any."""

    picture: Picture
    drawn: Lines | Heat
    stem: str
    view: str | None = None


@app.command()
def figures(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|GROUP|SWEEP",
            help="Runs, folders of runs and patterns as for `attnres compare`; or one sweep.",
            autocompletion=complete_runs_and_groups,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Write the images into this folder.")
    ] = DEFAULT_FOLDER,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="Only this picture, or pattern ('depth-weights*'); repeatable."),
    ] = None,
    format_name: Annotated[
        str,
        typer.Option("--format", metavar="FORMAT", help="png, svg or pdf.", autocompletion=complete_image_format),
    ] = "png",
    views: Annotated[
        bool, typer.Option("--views", help="Every view of a picture (training steps, axes) as a file of its own.")
    ] = False,
    bare: Annotated[bool, typer.Option("--bare", help="Without title and caption, for a paper.")] = False,
    data: Annotated[bool, typer.Option("--data", help="Beside every image its numbers as JSON.")] = False,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline",
            metavar="RUN|ARM",
            help="Differences are to this run or arm; without it to the first one.",
            autocompletion=complete_run,
        ),
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Print which pictures there are, and draw none.")] = False,
    json: JsonOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
) -> None:
    """Draw runs, a group or a sweep as images: loss, magnitudes, gradients, depth weights, what probes found.

    One file per picture, as wide as a column of a paper. Arms of several runs are drawn as means with 95 % intervals,
    and every arm looks the same in all pictures. A file of the same name is replaced.
    """
    from attnres_cli.cli.output import print_document
    from attnres_cli.report.drawing.images import check_installed
    from attnres_cli.report.pictures import chosen

    image_format = _checked_format(format_name)
    if not listing:
        check_installed()
        _check_folder(output)
    available = _pictures(runs, baseline, runs_dir)
    found = chosen(available, only, where="--only") if only else available
    if not found:
        raise UserError("There is nothing to draw: nothing was recorded.", where=", ".join(runs))
    images = list(_images(found, each_view=views))
    if not listing:
        for image in images:
            _write(image, output, image_format, bare=bare, with_data=data)
    print_document(
        _document(images, None if listing else output, image_format, with_data=data), "json" if json else "table"
    )


# ---------------------------------------------------------------------- what there is to draw


def _pictures(refs: list[str], baseline: str | None, root: Path) -> list[Picture]:
    """Of a sweep its own; of one cell, of a group and of runs those of a comparison."""
    from attnres_cli.report.pictures import pictures
    from attnres_cli.report.pictures_of_sweeps import pictures_of_sweep

    directory = _sweep_of(refs[0], root) if len(refs) == 1 else None
    if directory is None:
        return list(pictures(_comparison(refs, baseline, root)))
    document = directory.document()
    own = pictures_of_sweep(document)
    if len(document["cells"]) != 1:
        if baseline is not None:
            raise UserError(
                "A sweep of several cells has the reference it was started with.", where="--baseline",
                expected=str(document["arms"][0]["label"]), exit_code=ExitCode.USAGE,
            )  # fmt: skip
        return own
    has_begun = any(run["folder"] for run in document["runs"])
    return [*own, *(pictures(_comparison(refs, baseline, root)) if has_begun else ())]


def _sweep_of(ref: str, root: Path) -> SweepDirectory | None:
    from attnres_cli.sweep.results import SweepDirectory

    for path in (root / ref, Path(ref)):
        if ref.strip() and (directory := SweepDirectory(path)).exists:
            return directory
    return None


def _comparison(refs: list[str], baseline: str | None, root: Path) -> Comparison:
    """With a bench where one is stored: a picture is no reason to time anything."""
    from attnres_cli.cli.comparing import comparison_of

    comparison = comparison_of(refs, baseline, root, may_stand_alone=True)
    return _with_stored_bench(comparison, root)


class _NotStored(Exception):
    """There is no bench of these runs."""


def _with_stored_bench(comparison: Comparison, root: Path) -> Comparison:
    from attnres_cli.bench.stored import bench_of_runs
    from attnres_cli.report.comparison import SideBySide
    from attnres_cli.runs.directory import RunDirectory

    def stop(expected_seconds: float | None) -> None:
        raise _NotStored

    arms = [comparison.baseline, *comparison.others]
    try:
        stored = bench_of_runs([RunDirectory(arm.lead.path) for arm in arms], root=root, before_measuring=stop)
    except (_NotStored, UserError):
        return replace(comparison, bench_note=NOT_TIMED)
    names = {arm.label: name for arm, name in zip(arms, stored.arm_names, strict=True) if name is not None}
    return replace(comparison, bench=SideBySide(stored.result, names), bench_note=None)


# ---------------------------------------------------------------------- files


def _images(found: Sequence[Picture], *, each_view: bool) -> Iterator[_Image]:
    from attnres_cli.report.picture import Views, still

    for picture in found:
        if each_view and isinstance(picture, Views):
            for name, view in zip(picture.names, picture.views, strict=True):
                kind = "step-" if picture.by == "training step" else ""
                yield _Image(picture, view, f"{picture.key}-{kind}{_slug(name)}", name)
        else:
            yield _Image(picture, still(picture), picture.key)


def _slug(name: str) -> str:
    """A part of a file's name: "step 1,000" → "step-1000"."""
    return re.sub(r"[^a-z0-9]+", "-", name.replace(",", "").replace("Δ", "delta").lower()).strip("-")


def _write(image: _Image, folder: Path, image_format: ImageFormat, *, bare: bool, with_data: bool) -> None:
    from attnres_cli.report.drawing.images import draw
    from attnres_cli.report.picture import to_dict
    from attnres_cli.runs.files import json_text, write_whole

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / f"{image.stem}.{image_format}", draw(image.drawn, image_format, bare=bare))
        if with_data:
            content = {"schema": "attnres.picture/1", **to_dict(image.drawn)}
            write_whole(folder / f"{image.stem}.json", json_text(content, indent=1) + "\n")
    except OSError as error:
        raise UserError(f"The images cannot be written: {error.strerror or error}.", where=str(folder)) from error


def _document(images: Sequence[_Image], folder: Path | None, image_format: str, *, with_data: bool) -> Document:
    """What was written, or what could be (folder: None)."""
    from attnres_cli.report.document import Document
    from attnres_cli.report.picture import Views
    from attnres_cli.report.table import Column, Table

    rows = []
    for image in images:
        path = None if folder is None else str(folder / f"{image.stem}.{image_format}")
        picture = image.picture
        rows.append(
            {
                "picture": picture.key,
                "path": path,
                "title": picture.title if folder is None else image.drawn.title,
                "view": image.view,
                "views": len(picture.views) if isinstance(picture, Views) else 1,
                "by": picture.by if isinstance(picture, Views) else None,
                "data_path": str(folder / f"{image.stem}.json") if folder is not None and with_data else None,
                "alternative": image.drawn.alternative,
                "caption": image.drawn.caption,
            }
        )
    columns: tuple[Column, ...]
    if folder is None:
        columns = (Column("picture", "picture"), Column("title", "title"), Column("views", "views", kind="count"))
    else:
        columns = (Column("path", "file"), Column("title", "title"))
    shown = tuple({column.key: row[column.key] for column in columns} for row in rows)
    return Document("figures", (Table("figures", "", columns, shown, folds=False),), {"figures": rows})


def _checked_format(name: str) -> ImageFormat:
    for each in FORMATS:
        if name.lower() == each:
            return each  # type: ignore[return-value]  # FORMATS are those of images.py; a test compares them
    raise UserError(
        f"There is no image format '{name}'.", where="--format", expected=", ".join(FORMATS),
        nearest=nearest_name(name, FORMATS), exit_code=ExitCode.USAGE,
    )  # fmt: skip


def _check_folder(folder: Path) -> None:
    """Raise UserError when there can be no such folder, before anything is read."""
    existing = next((each for each in (folder, *folder.absolute().parents) if each.exists()), folder)
    if not existing.is_dir():
        raise UserError(
            f"'{existing}' is no folder.", where="--output", expected="a folder for the images",
            exit_code=ExitCode.USAGE,
        )  # fmt: skip
