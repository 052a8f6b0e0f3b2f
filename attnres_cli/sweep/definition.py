"""What a sweep does when it is not told otherwise: `presets/sweeps/<kind>.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.catalogue import preset_folders, shown
from attnres_cli.preset.toml import parse, read_text
from attnres_cli.sweep.budget import Budget

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(gt=0)]


class Definition(BaseModel):
    """The keys that the TOML file of every kind of sweep has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = Field(description="the preset it starts from when none is named")
    seeds: Count = Field(1, description="runs of every arm in every cell, each with a seed of its own")
    budget_minutes: Positive = Field(description="for the whole sweep, when neither a preset nor a budget is named")

    def budget(self, ref: str | None, asked: Budget | None) -> Budget:
        """The budget asked for; without one, a named preset trains for its own horizon, and no preset at all means
        the minutes of this file."""
        if asked is not None:
            return asked
        return Budget("preset") if ref is not None else Budget("minutes", self.budget_minutes)


D = TypeVar("D", bound=BaseModel)


def read_definition(kind: str, model: type[D]) -> D:
    """The definition of a kind of sweep: the project's (./presets/sweeps), the user's, or the built-in one.

    Raises UserError with every fault of the file.
    """
    candidates = [folder / "sweeps" / f"{kind}.toml" for _, folder in preset_folders()]
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise UserError(
            f"There is no definition of the sweep '{kind}'.", expected=" or ".join(shown(path) for path in candidates)
        )
    return definition_of(path, model)


def definition_of(path: Path, model: type[D]) -> D:
    """The definition in this file. Raises UserError with every fault."""
    values = parse(read_text(path, shown(path)), shown(path))
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise UserError([_fault(each, path, model) for each in error.errors()]) from None


def _fault(error: Any, path: Path, model: type[BaseModel]) -> Fault:
    key = ".".join(map(str, error["loc"])) or "the file"
    return Fault(f"{key}: {error['msg']}.", where=shown(path), expected=", ".join(model.model_fields))
