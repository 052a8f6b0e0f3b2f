"""Stand-ins for the engine's tests: a training that writes run directories as training does, in no time."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from attnres_cli.preset.reading import preset_from_dict
from attnres_cli.runs.directory import RunDirectory
from attnres_cli.sweep.engine import run_sweep
from attnres_cli.sweep.execution import Job, JobResult, Slot
from attnres_cli.sweep.kinds.depth_width import GROWING, plan
from attnres_cli.sweep.layout import Context
from attnres_cli.sweep.request import Continued, Request, carried_over, continued
from attnres_cli.sweep.results import Arm, Run, Sweep, create_sweep_directory
from tests.small import small_preset

PRESET = small_preset(**{"model.d_model": 48, "model.num_heads": 6, "model.d_ff": 128})
ARMS = (Arm("prenorm", {"scheme": "prenorm"}), Arm("attnres-full", {"scheme": "attnres-full"}))


def request(**changes: Any) -> Request:
    settings: dict[str, Any] = {
        "match": "parameters", "ratios": [6.0, 12.0], "head_ratios": [], "learning_rate_power": -0.5,
    }  # fmt: skip
    own = {key: changes.pop(key) for key in list(changes) if key in settings}
    values: dict[str, Any] = {"kind": "depth-width", "preset": PRESET, "arms": ARMS, "settings": settings | own}
    return Request(**{**values, **changes})


def planned(request: Request, tokens: int | None = None) -> Sweep:
    """The plan of `request`, a fresh copy; counting models takes a second, so equal requests are planned once."""
    key = json.dumps([request.to_dict(), tokens])
    if key not in _PLANS:
        _PLANS[key] = plan(request, Context("s", "attnres sweep", 31, tokens=tokens))
    return copy.deepcopy(_PLANS[key])


_PLANS: dict[str, Sweep] = {}


class Trainer:
    """Stands for `train_job`. endings: by run folder, how its next trainings end; everything else finishes."""

    def __init__(self, **endings: list[str]) -> None:
        self.endings = {name.replace("_", "-"): list(each) for name, each in endings.items()}
        self.trained: list[str] = []
        self.resumed: list[str] = []

    def __call__(self, job: Job) -> JobResult:
        folder = Path(job.run_folder)
        preset = preset_from_dict(job.preset, job.preset_name)
        assert preset.digest() == job.key
        self.trained.append(folder.name)
        if job.resume:
            self.resumed.append(folder.name)
            run = RunDirectory(folder)
        else:
            run = RunDirectory.create(folder.parent, "", folder.name)
        run.write_presets(preset=job.source_text, resolved=preset.to_toml())
        run.write_manifest({"preset_digest": job.key, "created": f"{len(self.trained):04d}"})
        ending = self.endings.get(folder.name, [])
        how = ending.pop(0) if ending else "finished"
        if how == "raises":
            run.write_state(status="failed", error="no room")
            raise ValueError("no room")
        if how == "interrupted with a checkpoint":
            checkpoint = run.checkpoint_folder(3)
            checkpoint.mkdir()
            (checkpoint / "state.json").write_text("{}")
            run.write_state(status="interrupted", step=3, steps=20)
            return JobResult("interrupted", "stopped")
        if how in ("interrupted", "diverged"):
            run.write_state(status=how, step=0, steps=20, error=how)
            return JobResult(how, how)  # type: ignore[arg-type]
        run.append_metric({"kind": "train", "step": 20, "tokens": 1280, "loss": 2.0, "train_seconds": 4.0})
        run.append_metric(
            {"kind": "eval", "step": 20, "tokens": 1280, "loss": 2.5, "perplexity": 12.2, "bits_per_byte": None}
        )
        run.write_state(status="finished", step=20, steps=20)
        return JobResult("finished")


class Quiet:
    def started(self, run: Run) -> None: ...

    def ended(self, run: Run) -> None: ...


def run_again(root: Path, trainer: Trainer, **changes: Any) -> Sweep:
    """Ask for the sweep "s" (again) and run whatever is left, as the command does."""
    found: Continued = continued(root, "s", request(**changes), GROWING)
    sweep = planned(found.request, tokens=None if found.earlier is None else found.earlier.tokens)
    if found.earlier is None:
        create_sweep_directory(found.directory)
    else:
        sweep = carried_over(sweep, found.earlier)
    return run_sweep(found.directory, sweep, slots=[Slot()], listener=Quiet(), run_job=trainer)


def statuses(sweep: Sweep) -> dict[str, str]:
    return {run.name: run.status for run in sweep.runs}
