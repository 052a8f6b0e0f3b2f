"""`attnres verify`: the checks that expose an unfaithful implementation, of ours and of a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnres_cli.cli.options import (
    DEFAULT_RUNS_DIR,
    JsonOption,
    OverlayOption,
    ResidualOption,
    RunsRootOption,
    SetOption,
    complete_preset,
)
from attnres_cli.cli.sweep_options import JobsOption
from attnres_cli.errors import ExitCode, UserError

if TYPE_CHECKING:
    from attnres_cli.verify.running import Checked
    from attnres_cli.verify.subjects import Subject

app = typer.Typer()


@app.command()
def verify(
    ctx: typer.Context,
    preset: Annotated[
        str | None,
        typer.Argument(
            metavar="[PRESET]",
            help="Verify this preset's residual scheme and options; without it baseline, Full and Block.",
            autocompletion=complete_preset,
        ),
    ] = None,
    residual: ResidualOption = None,
    overlays: OverlayOption = None,
    sets: SetOption = None,
    module: Annotated[
        str | None,
        typer.Option(
            "--module", metavar="FILE:CLASS", help="Hold your own class (path.py:Class) against the paper instead."
        ),
    ] = None,
    example: Annotated[
        Path | None,
        typer.Option("--example", metavar="FILE", help="Write a faithful module to start from, and verify nothing."),
    ] = None,
    study: Annotated[
        bool,
        typer.Option("--study", help="Hold training, comparing and judging against answers that are known (minutes)."),
    ] = False,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="With --study: keep its runs, as NAME-a, NAME-b …")
    ] = None,
    jobs: JobsOption = None,
    runs_dir: RunsRootOption = DEFAULT_RUNS_DIR,
    json: JsonOption = False,
) -> None:
    """Run the checks that expose an unfaithful implementation, in seconds, and print them.

    A preset's trunk is cut down for it; its [residual] section is what is verified. --module imports and runs your
    file, which needs a small adapter: mix(sources, ordinal) and queries() (docs/verify.md). --study trains one scheme
    under two names and plants a known effect, to see whether comparisons say what is true. The exit code is 0 where
    everything holds, 1 where a check of ours fails, and 6 where your module lacks a property.
    """
    if not study and (name is not None or jobs is not None):
        raise _usage("--name and --jobs are about the runs of --study.", where="--name" if name else "--jobs")
    if name is None and _was_typed(ctx, "runs_dir"):
        raise _usage("--runs-dir says where --study --name NAME keeps its runs.", where="--runs-dir")
    if study:
        if module is not None or example is not None:
            raise _usage("--study trains runs, and does nothing with a module of yours.", where="--study")
        from attnres_cli.cli.verify_study import verify_study

        verify_study(
            preset, residual=residual, overlays=overlays or [], sets=sets or [], name=name, jobs=jobs,
            runs_dir=runs_dir, json=json,
        )  # fmt: skip
        return
    if example is not None:
        if preset is not None or module is not None or residual or overlays or sets or json:
            raise _usage("--example writes a file and does nothing else.", where="--example")
        _write_example(example)
        return
    if module is not None:
        if preset is not None or residual or overlays or sets:
            raise _usage("--module verifies a class of yours, without a preset and its options.", where="--module")
        payload = _module_payload(module)
    else:
        if preset is None and (residual or overlays or sets):
            raise _usage("--residual, --overlay and --set change a preset.", where="PRESET", hint="name one: cpu-tiny")
        payload = _payload(preset, residual, overlays or [], sets or [])
    from attnres_cli.cli.output import print_document
    from attnres_cli.report.tables.verify import verify_document

    print_document(verify_document(payload), "json" if json else "table")
    if payload["failed"]:
        raise typer.Exit(ExitCode.UNEXPECTED if module is None else ExitCode.THRESHOLD)


def _payload(preset: str | None, residual: str | None, overlays: list[str], sets: list[str]) -> dict[str, Any]:
    typer.echo("loading …", err=True)
    from attnres_cli.verify.running import CHECKS

    subjects = _subjects(preset, residual, overlays, sets)
    model = subjects[0].preset.model
    return {
        "subject": subjects[0].name if preset else "Residual schemes",
        "preset": preset,
        "module": None,
        "schemes": [subject.name for subject in subjects],
        "trunk": {
            "transformer_blocks": model.transformer_blocks,
            "d_model": model.d_model,
            "num_heads": model.num_heads,
            "num_kv_heads": model.resolved_num_kv_heads,
            "norm_epsilon": model.norm_epsilon,
        },
        **_results(CHECKS, subjects),
    }


def _subjects(preset: str | None, residual: str | None, overlays: list[str], sets: list[str]) -> tuple[Subject, ...]:
    from attnres_cli.preset.reading import load_preset
    from attnres_cli.verify.subjects import default_subjects, subject_of

    if preset is None:
        return default_subjects()
    loaded = load_preset(preset, overlays=overlays, residual=residual, sets=sets)
    for note in loaded.notes:
        typer.echo(f"note: {note}", err=True)
    return (subject_of(loaded),)


def _module_payload(spec: str) -> dict[str, Any]:
    typer.echo("loading …", err=True)
    from attnres_cli.verify.candidate import Candidate
    from attnres_cli.verify.identified import Examined
    from attnres_cli.verify.running import PROPERTIES

    candidate = Candidate(spec)
    return {
        "subject": candidate.class_name,
        "preset": None,
        "module": candidate.where,
        "schemes": [],
        "trunk": None,
        **_results(PROPERTIES, Examined(candidate)),
    }


def _write_example(path: Path) -> None:
    from attnres_cli.runs.files import write_whole

    if path.exists():
        raise _usage(f"'{path}' exists, and is left as it is.", where="--example", expected="a new file")
    text = Path(__file__).parent.parent.joinpath("verify", "example.py").read_text(encoding="utf-8")
    try:
        write_whole(path, text)
    except OSError as error:
        raise UserError(f"'{path}' cannot be written: {error.strerror or error}.", where="--example") from error
    typer.echo(f"wrote {path}; next: attnres verify --module {path}:BlockAttnRes")


def _results(package: str, argument: Any) -> dict[str, Any]:
    from attnres_cli.report.numbers import duration
    from attnres_cli.verify.running import run_all

    checks = []
    try:
        for checked in run_all(package, argument, lambda title: typer.echo(f"{title} … ", err=True, nl=False)):
            typer.echo(f"{'FAILS' if checked.failed else 'done'}, {duration(checked.seconds)}", err=True)
            checks.append(_plain(checked))
    except BaseException:
        typer.echo("", err=True)  # what is said of it begins a line of its own
        raise
    failed = sum(finding["status"] == "fails" for check in checks for finding in check["findings"])
    return {"failed": failed, "checks": checks}


def _plain(checked: Checked) -> dict[str, Any]:
    from dataclasses import asdict

    findings = [asdict(finding) for finding in checked.findings]
    return {"name": checked.name, "title": checked.title, "seconds": checked.seconds, "findings": findings}


def _was_typed(ctx: typer.Context, parameter: str) -> bool:
    """Whether the user gave it as an option; an environment variable is about other commands, too."""
    source = ctx.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _usage(what: str, **details: str | None) -> UserError:
    return UserError(what, exit_code=ExitCode.USAGE, **details)
