"""What probes found in a run's checkpoints: one folder per step, one JSON object and one file of arrays per probe.

    runs/<name>/probed/step-000400/magnitudes.json  magnitudes.safetensors

Written by `attnres probe`, long after training, and read by whoever shows it. The JSON object comes last: where it is,
its arrays are. docs/run-directory.md lists the fields.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnres_cli.runs.files import Row, read_json, write_json, write_whole
from attnres_cli.runs.shapes import TWO_DIMENSIONS, is_probe

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from attnres_cli.runs.directory import RunDirectory

    Arrays = Mapping[str, npt.NDArray[np.float64]]

SCHEMA = "attnres.probe/1"


def folder_of(run: RunDirectory, step: int) -> Path:
    """Where the findings on the checkpoint of `step` belong; not created."""
    return run.probed_folder / f"step-{step:06d}"


def steps(run: RunDirectory) -> list[int]:
    """The steps whose checkpoints have been probed, the latest last."""
    folders = (re.fullmatch(r"step-(\d+)", path.name) for path in run.probed_folder.glob("step-*"))
    return sorted(int(match.group(1)) for match in folders if match)


def read(run: RunDirectory, name: str, step: int | None = None) -> Row | None:
    """The JSON object of probe `name` at `step`, or at the latest step that has one; None where there is none.

    Its "summary" is None where the scheme has nothing of the kind; "nothing" then says so in a sentence.
    """
    for each in [step] if step is not None else reversed(steps(run)):
        try:
            found = read_json(folder_of(run, each) / f"{name}.json")
        except (OSError, ValueError):
            continue
        if found.get("schema") == SCHEMA and "summary" in found and is_probe(found, name):
            return found
    return None


def read_arrays(run: RunDirectory, name: str, step: int | None = None) -> dict[str, npt.NDArray[np.float64]]:
    """The arrays of probe `name`, by name; nothing where there is no such probe or its file cannot be read."""
    found = read(run, name, step)
    if not found or not found["arrays"]:
        return {}
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    folder, listing = folder_of(run, found["step"]), found["arrays"]
    try:
        files = {file: load_file(folder / file) for file in {place["file"] for place in listing.values()}}
        arrays = {key: files[place["file"]][place["key"]] for key, place in listing.items()}
    except (OSError, ValueError, KeyError, TypeError, SafetensorError):
        return {}
    two = TWO_DIMENSIONS.get(name, ())
    are_whole = all(array.ndim == (2 if key in two else 1) for key, array in arrays.items())
    return arrays if are_whole else {}


def write(
    run: RunDirectory, name: str, step: int, facts: Mapping[str, Any], summary: Row | None, arrays: Arrays
) -> None:
    """Keep what probe `name` found, in place of what was there. facts: further fields (sequences, tokens, key)."""
    from safetensors.numpy import save

    folder = folder_of(run, step)
    folder.mkdir(parents=True, exist_ok=True)
    described, content = folder / f"{name}.json", folder / f"{name}.safetensors"
    described.unlink(missing_ok=True)  # it must never stand beside arrays that it does not describe
    if arrays:
        write_whole(content, save(dict(arrays)))
    else:
        content.unlink(missing_ok=True)
    listing = {key: {"file": content.name, "key": key, "shape": list(array.shape)} for key, array in arrays.items()}
    write_json(
        described, {"schema": SCHEMA, "probe": name, "step": step, **facts, "summary": summary, "arrays": listing}
    )
