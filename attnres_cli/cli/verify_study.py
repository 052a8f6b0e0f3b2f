"""`attnres verify --study`: the chain from a preset to a verdict, held against answers that are known."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from attnres_cli.errors import ExitCode

if TYPE_CHECKING:
    from attnres_cli.preset.preset import Preset
    from attnres_cli.sweep.chain import Link

PRESET = "cpu-tiny"
# Without a preset of the user's: long enough that seeds differ by what training does, short enough for minutes.
STEPS = 60
QUICK = {"eval.every_steps": 0, "observe.every_steps": 0}


def verify_study(
    preset: str | None,
    *,
    residual: str | None,
    overlays: Sequence[str],
    sets: Sequence[str],
    name: str | None,
    jobs: int | None,
    runs_dir: Path,
    json: bool,
) -> None:
    """Train, compare, judge, print; leaves through typer.Exit where a link of the chain fails.

    name: keep the runs as <runs_dir>/<name>-…; None: in a temporary folder.
    """
    began = time.monotonic()
    typer.echo("loading …", err=True)
    loaded = _loaded(preset, residual, overlays, sets)
    with tempfile.TemporaryDirectory(prefix="attnres-verify-") as scratch:
        root, prefix = (runs_dir, name) if name is not None else (Path(scratch, "runs"), "verify")
        links, groups = _links(loaded, root, prefix, Path(scratch, "planted"), jobs)
    from attnres_cli.cli.output import print_document
    from attnres_cli.report.tables.verify_study import verify_study_document

    failed = sum(link.status == "fails" for link in links)
    payload: dict[str, Any] = {
        "preset": f"{loaded.name} with {loaded.residual.scheme}",
        "steps": -(-loaded.train.horizon_tokens // loaded.train.tokens_per_step),
        "groups": list(dict.fromkeys(groups)) if name is not None else [],
        "seconds": time.monotonic() - began,
        "failed": failed,
        "links": [asdict(link) for link in links],
    }
    print_document(verify_study_document(payload), "json" if json else "table")
    if failed:
        raise typer.Exit(ExitCode.UNEXPECTED)


def _loaded(preset: str | None, residual: str | None, overlays: Sequence[str], sets: Sequence[str]) -> Preset:
    from attnres_cli.data.inputs import missing_inputs
    from attnres_cli.preset.reading import load_preset

    loaded = load_preset(preset or PRESET, overlays=overlays, residual=residual, sets=sets, inputs=missing_inputs)
    for note in loaded.notes:
        typer.echo(f"note: {note}", err=True)
    if preset is not None:
        return loaded
    return loaded.replace({**QUICK, "train.horizon_tokens": STEPS * loaded.train.tokens_per_step})


def _links(preset: Preset, root: Path, prefix: str, scratch: Path, jobs: int | None) -> tuple[list[Link], list[str]]:
    from attnres_cli.cli.preparing import saying_what_is_kept
    from attnres_cli.cli.sweep_display import display
    from attnres_cli.data.prepare import prepare
    from attnres_cli.data.sources import vocabulary_size_of
    from attnres_cli.sweep.chain import Chain

    with saying_what_is_kept():
        prepare(preset)
    chain = Chain(
        preset=preset,
        root=root,
        prefix=prefix,
        scratch=scratch,
        vocab_size=vocabulary_size_of(preset.data, preset.source_folder),
        show=display,
        say=lambda text: typer.echo(text, err=True),
        jobs=jobs,
        command=shlex.join(["attnres", *sys.argv[1:]]),
    )
    links = []
    for link in chain.links():
        typer.echo(f"{link.check}, {link.what}: {'FAILS' if link.status == 'fails' else 'ok'}", err=True)
        links.append(link)
    return links, chain.groups
