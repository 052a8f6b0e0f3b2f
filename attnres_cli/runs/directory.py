"""The run directory: the one thing a run leaves behind, and the only interface between training and reporting.

    runs/<name>/
        preset.toml         the preset as the user wrote it
        resolved.toml       every key with its final value
        manifest.json       what was run: versions, data hashes, parameter and FLOP counts
        metrics.jsonl       one row per logged step, evaluation and event
        state.json          status, process, heartbeat
        log.txt             sentences for people
        .metrics.npz        the columnar cache of a long metrics.jsonl (columns.py)
        probes/             observations.jsonl and the arrays it names
        checkpoints/        step-000100/…
        probed/             what `attnres probe` found in the checkpoints (probed.py)

docs/run-directory.md is the contract. One process writes a run; any number of readers look on without locking.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Any

from attnres_cli.errors import UserError
from attnres_cli.runs import columns, metrics, probed, shapes
from attnres_cli.runs.creation import Start, make_folder, resume_command
from attnres_cli.runs.files import (
    Row,
    Rows,
    append_line,
    append_row,
    json_or_nothing,
    json_text,
    read_json,
    read_last_rows,
    read_rows,
    write_json,
    write_whole,
)
from attnres_cli.runs.reading import parsed_toml
from attnres_cli.runs.state import ENDED, ESSENTIAL_FIELDS, UNREADABLE, beating, first_state, judged_status

MANIFEST_SCHEMA = "attnres.manifest/1"


class RunDirectory:
    """One run on disk. Opening it reads nothing; every method reads or writes the file it is named after."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._state_lock = threading.Lock()

    def __repr__(self) -> str:
        return f"RunDirectory({str(self.path)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunDirectory) and self.path.resolve() == other.path.resolve()

    def __hash__(self) -> int:
        return hash(self.path.resolve())

    @classmethod
    def create(cls, root: Path, stem: str, name: str | None = None, *, start: Start | None = None) -> RunDirectory:
        """Make a new run directory below `root` (made when missing) and mark it as running in this process.

        name: the user's name, or None for `<stem>-<time>-<4 hex digits>`, where stem is `<preset>-<scheme>-s<seed>`.
        start: what the run begins from, which makes it one that can be resumed even where it never comes to a step.
        Raises UserError when the name is taken (a run directory is never reused) or cannot be a folder's name.
        """
        return cls(make_folder(root, stem, name, start))

    # ------------------------------------------------------------------ where things are

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def preset_toml(self) -> Path:
        return self.path / "preset.toml"

    @property
    def resolved_toml(self) -> Path:
        return self.path / "resolved.toml"

    @property
    def manifest_path(self) -> Path:
        return self.path / "manifest.json"

    @property
    def metrics_path(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def state_path(self) -> Path:
        return self.path / "state.json"

    @property
    def log_path(self) -> Path:
        return self.path / "log.txt"

    @property
    def probes_folder(self) -> Path:
        return self.path / "probes"

    @property
    def observations_path(self) -> Path:
        return self.probes_folder / "observations.jsonl"

    @property
    def checkpoints_folder(self) -> Path:
        return self.path / "checkpoints"

    @property
    def probed_folder(self) -> Path:
        return self.path / "probed"

    @property
    def is_run(self) -> bool:
        """Whether this folder is a run: it holds a manifest or a state of this program's making."""
        return not self.path.is_symlink() and (
            self._manifest_is_ours() or json_or_nothing(self.state_path).keys() >= ESSENTIAL_FIELDS
        )

    @property
    def is_damaged_run(self) -> bool:
        """Whether nothing says any more whose this folder is, because a file that would say it holds no JSON object:
        worth showing as a run, and not to be removed as one."""
        said = (self.manifest_path, self.state_path)
        return not self.path.is_symlink() and not self.is_run and any(map(_holds_no_object, said))

    def _manifest_is_ours(self) -> bool:
        return str(json_or_nothing(self.manifest_path).get("schema", "")).startswith("attnres.manifest/")

    @property
    def never_began(self) -> bool:
        """Whether it was stopped before its first step, or is still being prepared: nothing was measured."""
        return not (self.manifest_path.exists() or self.metrics_path.exists() or self.checkpoints())

    # ------------------------------------------------------------------ what was run

    def manifest(self) -> Row:
        """manifest.json. Raises UserError when it is missing or no manifest."""
        try:
            return shapes.fitting(read_json(self.manifest_path), shapes.MANIFEST)
        except FileNotFoundError:
            raise UserError(f"Run '{self.name}' has no manifest.json.", where=str(self.path)) from None
        except (OSError, ValueError) as error:
            raise UserError(
                f"The manifest of run '{self.name}' cannot be read: {error}.", where=str(self.manifest_path)
            ) from error

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Write manifest.json whole; "schema" and "name" are filled in."""
        write_json(self.manifest_path, {"schema": MANIFEST_SCHEMA, "name": self.name, **manifest})

    def write_presets(self, *, preset: str, resolved: str) -> None:
        """preset: the TOML text as the user wrote it; resolved: the TOML text with every key."""
        write_whole(self.preset_toml, preset)
        write_whole(self.resolved_toml, resolved)

    def write_start(self, start: Start) -> None:
        """What the run begins from; where it was created with that, it is there already."""
        if not self.resolved_toml.exists():
            self.write_presets(preset=start.preset, resolved=start.resolved)
            self.write_state(**start.facts(), resume=resume_command(self.path))

    def resolved(self) -> Row:
        """resolved.toml as nested dictionaries. Raises UserError when it is missing or no resolved preset."""
        try:
            return shapes.fitting(parsed_toml(self.resolved_toml.read_text(encoding="utf-8")), shapes.RESOLVED)
        except FileNotFoundError:
            raise UserError(f"Run '{self.name}' has no resolved.toml.", where=str(self.path)) from None
        except (OSError, ValueError) as error:
            raise UserError(
                f"The resolved preset of run '{self.name}' cannot be read: {error}.", where=str(self.resolved_toml)
            ) from error

    # ------------------------------------------------------------------ how it goes

    def read_state(self) -> Row:
        """state.json with its status as a reader should believe it (see state.judged_status): "stale" for a run whose
        process is gone or silent, "unreadable" when there is no valid state. "stored_status" is what the file says."""
        stored = self._stored_state()
        return {**stored, "status": judged_status(stored), "stored_status": stored.get("status", UNREADABLE)}

    @property
    def status(self) -> str:
        return str(self.read_state()["status"])

    def write_state(self, **changes: Any) -> None:
        """Change some fields of state.json and renew the heartbeat. Safe beside the heartbeat thread of this
        process."""
        with self._state_lock:
            state = self._stored_state() or first_state()
            write_json(self.state_path, {**state, "heartbeat": time.time(), **changes})

    def beating(self) -> AbstractContextManager[None]:
        """Keep the heartbeat fresh from a thread while the body runs."""
        return beating(self.write_state)

    def _stored_state(self) -> Row:
        found = json_or_nothing(self.state_path)
        return {} if shapes.misfit(found, shapes.STATE) else found

    def log(self, line: str) -> None:
        """Append a sentence to log.txt with the local time before it."""
        stamp = datetime.now().astimezone().isoformat(timespec="seconds")
        append_line(self.log_path, f"{stamp} {' '.join(line.splitlines())}")

    # ------------------------------------------------------------------ metrics

    def append_metric(self, row: Mapping[str, Any]) -> None:
        append_row(self.metrics_path, row)

    def read_metrics(self) -> Rows:
        """All complete rows of metrics.jsonl, and how many lines were torn."""
        return read_rows(self.metrics_path)

    def metrics(self) -> list[Row]:
        """All complete rows of metrics.jsonl, in the order in which they were written."""
        return self.read_metrics().rows

    def logged(self) -> columns.Logged:
        """The `train` and `eval` rows by step, quickly where the run is long and has ended: see columns.py."""
        return columns.read_logged(self.metrics_path, may_keep=lambda: self.status in ENDED)

    def keep_columns(self) -> None:
        """Make the columnar cache of a run that ends now, so that the first reader finds it."""
        columns.keep(self.metrics_path)

    def evaluations(self) -> Sequence[Row]:
        """The `eval` rows by step."""
        return self.logged().evaluations

    def last_evaluation(self) -> Row | None:
        """The latest `eval` row, found at the end of the file without reading all of it; None when there is none."""
        for found in (read_last_rows(self.metrics_path), self.read_metrics()):
            rows = metrics.rows_of_kind(found.rows, "eval")
            if rows:
                return rows[-1]
        return None

    def train_rows(self) -> Sequence[Row]:
        """The `train` rows by step."""
        return self.logged().train

    def truncate_metrics(self, after_step: int) -> None:
        """Forget metrics and observations later than `after_step`: a resumed run writes them again."""
        for path in (self.metrics_path, self.observations_path):
            found = read_rows(path)
            kept = metrics.kept_after_resume(found.rows, after_step)
            if found.torn or len(kept) != len(found.rows):
                write_whole(path, "".join(json_text(row) + "\n" for row in kept))

    # ------------------------------------------------------------------ probes and checkpoints

    def append_observation(self, row: Mapping[str, Any]) -> None:
        self.probes_folder.mkdir(exist_ok=True)
        append_row(self.observations_path, row)

    def observations(self) -> list[Row]:
        """All rows of probes/observations.jsonl that are whole."""
        return self.read_observations().rows

    def read_observations(self) -> Rows:
        """The same, and how many lines were torn or hold anything but what an observer writes."""
        found = read_rows(self.observations_path)
        rows = [row for row in found.rows if shapes.is_observation(row)]
        return Rows(rows, found.torn + len(found.rows) - len(rows))

    def last_observation(self, observer: str) -> Row | None:
        """The latest row of one observer, or None."""
        rows = [row for row in self.observations() if row["observer"] == observer]
        return max(rows, key=lambda row: row["step"], default=None)

    def probed(self, probe: str, step: int | None = None) -> Row | None:
        """What a probe found in the checkpoint of `step`, or in the latest that it has looked at; None where it has not
        looked, or the scheme has nothing of the kind. Its arrays: runs.probed.read_arrays."""
        found = probed.read(self, probe, step)
        return found if found is not None and found["summary"] is not None else None

    def checkpoints(self) -> list[Path]:
        """Folders of complete checkpoints by step, the latest last. A folder without state.json is incomplete."""
        folders = (path for path in self.checkpoints_folder.glob("step-*") if (path / "state.json").is_file())
        numbered = [
            (int(match.group(1)), path) for path in folders if (match := re.fullmatch(r"step-(\d+)", path.name))
        ]
        return [path for _, path in sorted(numbered)]

    def checkpoint_folder(self, step: int) -> Path:
        """Where the checkpoint of `step` belongs; not created."""
        return self.checkpoints_folder / f"step-{step:06d}"


def _holds_no_object(path: Path) -> bool:
    """Whether there is such a file, and it is torn, empty, or anything but a JSON object."""
    try:
        read_json(path)
    except FileNotFoundError:
        return False
    except (OSError, ValueError):
        return True
    return False
