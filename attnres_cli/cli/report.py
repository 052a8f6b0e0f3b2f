"""`attnres report RUNS|SWEEP|STUDY|TUNE -o report.html`: all that is known of some runs, as one file to send."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnres_cli.cli.compare import complete_runs_and_groups
from attnres_cli.cli.options import DEFAULT_RUNS_DIR, JsonOption, RunsRootOption
from attnres_cli.errors import ExitCode, UserError, nearest_name

if TYPE_CHECKING:
    from attnres_cli.report.comparison import Comparison
    from attnres_cli.report.contents import Report
    from attnres_cli.sweep.results import SweepDirectory

app = typer.Typer()

FORMAT_OF_SUFFIX = {".html": "html", ".htm": "html", ".md": "markdown", ".tex": "latex", ".json": "json"}
FORMATS = ("html", "markdown", "latex", "json")


def complete_report_format(incomplete: str) -> list[str]:
    return [name for name in FORMATS if name.startswith(incomplete)]


@app.command()
def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|GROUP|SWEEP",
            help="Runs, folders of runs and patterns as for `attnres compare`; or one sweep, study or tune.",
            autocompletion=complete_runs_and_groups,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write to this file; a page needs one."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", help="html, markdown, latex or json; without it the file's suffix decides.",
            autocompletion=complete_report_format,
        ),
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--baseline", metavar="RUN|ARM", help="Compare with this run or arm; without it with the first one.",
            autocompletion=complete_runs_and_groups,
        ),
    ] = None,
    title: Annotated[str | None, typer.Option("--title", metavar="TEXT", help="Title of the report.")] = None,
    table: Annotated[
        list[str] | None,
        typer.Option("--table", metavar="NAME", help="No picture, and only this table (verdict, cost, …); repeatable."),
    ] = None,
    no_bench: Annotated[
        bool, typer.Option("--no-bench", help="Do not time the runs side by side: no cost figures.")
    ] = False,
    json: JsonOption = False,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
) -> None:  # fmt: skip
    """Write a report of runs, a sweep, a study or a tune, to send to a colleague.

    html is one self-contained page, which opens anywhere without a network: the verdict, what differs, loss, cost,
    what the layers do, and the commands, versions and hashes that reproduce it. markdown is for a pull request, latex
    for a paper; both are printed where no file is named. What `attnres probe` has measured is shown, too.
    """
    from attnres_cli.cli.output import check_writable, print_document, write_document, write_text
    from attnres_cli.report.contents import only_tables
    from attnres_cli.report.contents_as_text import as_document

    chosen = _chosen_format(format_name, output, json=json)
    if output is not None:
        check_writable(output)
    plotly_js = _plotly_js() if chosen == "html" else ""
    found = _report(runs, baseline, runs_dir, title=title, is_timed=not no_bench)
    if table:
        found = only_tables(found, table)
    if chosen == "html":
        from attnres_cli.report.page.page import page

        assert output is not None, "a page has a file"
        write_text(page(found, plotly_js, command=shlex.join(["attnres", *sys.argv[1:]])), output)
    elif output is None:
        print_document(as_document(found), chosen)
    else:
        write_document(as_document(found), chosen, output)


def _chosen_format(format_name: str | None, output: Path | None, *, json: bool) -> str:
    """The format asked for, else the one that the file's suffix names, else html, which needs a file."""
    if json and format_name not in (None, "json"):
        raise _usage(f"--json and --format {format_name} exclude each other.", where="--format")
    suffix = output.suffix.lower() if output else ""
    chosen = "json" if json else format_name or FORMAT_OF_SUFFIX.get(suffix, "html" if not suffix else None)
    if chosen is None:
        raise _usage(
            f"No format of a report belongs to the suffix '{suffix}'.", where=str(output),
            expected=", ".join(FORMAT_OF_SUFFIX), hint=f"add --format with one of {', '.join(FORMATS)}",
        )  # fmt: skip
    if chosen not in FORMATS:
        raise _usage(
            f"There is no format '{chosen}' of a report.", where="--format", expected=", ".join(FORMATS),
            nearest=nearest_name(chosen, FORMATS),
        )  # fmt: skip
    if chosen == "html" and output is None:
        raise _usage("A page needs a file.", where="--output", expected="the path of a file", hint="-o report.html")
    return chosen


def _plotly_js() -> str:
    """The source of the library that draws on the page."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise UserError(
            "A page with pictures needs plotly: pip install 'attnres-cli[report]'", where="--format html",
            expected="plotly, or --format markdown or latex, which need nothing",
        ) from None  # fmt: skip
    return str(get_plotlyjs())


# ---------------------------------------------------------------------- what is reported


def _report(refs: list[str], baseline: str | None, root: Path, *, title: str | None, is_timed: bool) -> Report:
    from attnres_cli.report.contents import comparison_report

    if len(refs) == 1 and (directory := _sweep_of(refs[0], root)) is not None:
        return _sweep_report(directory, refs[0], baseline, root, title=title, is_timed=is_timed)
    comparison = _comparison(refs, baseline, root, is_timed=is_timed)
    return comparison_report(comparison, title=title, words=_words(refs, root))


def _comparison(refs: list[str], baseline: str | None, root: Path, *, is_timed: bool) -> Comparison:
    from attnres_cli.cli.comparing import comparison_of, with_bench

    comparison = comparison_of(refs, baseline, root)
    return with_bench(comparison, root, rebench=False) if is_timed else comparison


def _sweep_of(ref: str, root: Path) -> SweepDirectory | None:
    """The sweep that a word means, if it means one. Raises UserError for a study of which nothing is trained."""
    from attnres_cli.sweep.results import SweepDirectory
    from attnres_cli.sweep.study import study_names

    for path in (root / ref, Path(ref)):
        if ref.strip() and (directory := SweepDirectory(path)).exists:
            return directory
    if ref in study_names() and not (root / ref).exists():
        raise UserError(f"Nothing of study '{ref}' is trained yet.", where=ref, hint=f"attnres study run {ref}")
    return None


def _sweep_report(
    directory: SweepDirectory, ref: str, baseline: str | None, root: Path, *, title: str | None, is_timed: bool
) -> Report:  # fmt: skip
    """A sweep of several cells has no single verdict; one of a single cell is a comparison of its arms, too."""
    from attnres_cli.report.contents import sweep_report

    document = directory.document()
    folders = [run["folder"] for run in document["runs"] if run["folder"]]
    if not folders:
        raise UserError(
            f"No run of sweep '{directory.name}' has begun.", where=str(directory.path),
            hint=f"attnres sweep resume {shlex.quote(directory.name)}",
        )  # fmt: skip
    comparison = None
    if len(document["cells"]) == 1 and len(document["arms"]) > 1:
        comparison = _comparison([ref], baseline, root, is_timed=is_timed)
    elif baseline is not None:
        raise _usage(
            "A sweep of several cells has the reference it was started with.", where="--baseline",
            expected=str(document["arms"][0]["label"]),
        )  # fmt: skip
    manifests = {folder: _manifest(directory.path / folder) for folder in folders}
    return sweep_report(document, manifests, comparison, title=title, words=_words([ref], root))


def _words(refs: list[str], root: Path) -> str:
    """What names the same runs in another command."""
    return shlex.join([*refs, *(() if root == DEFAULT_RUNS_DIR else ("--runs-dir", str(root)))])


def _manifest(folder: Path) -> dict[str, object]:
    """Empty where it cannot be read."""
    from attnres_cli.runs.directory import RunDirectory

    try:
        return RunDirectory(folder).manifest()
    except UserError:
        return {}


def _usage(what: str, **details: str | None) -> UserError:
    return UserError(what, exit_code=ExitCode.USAGE, **details)
