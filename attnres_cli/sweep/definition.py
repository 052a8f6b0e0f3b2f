"""What a sweep does when it is not told otherwise: `presets/sweeps/<kind>.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.catalogue import preset_folders, shown
from attnres_cli.preset.toml import parse, read_text

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Definition(BaseModel):
    """The keys of a sweep's TOML file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    preset: str = Field(description="the preset it starts from when none is named")
    arms: tuple[str, ...] = Field(
        (),
        description="residual schemes with their own defaults, the reference first; default: residual/arms.toml",
    )
    ratios: tuple[Positive, ...] = Field(min_length=1, description="values of d_model / L_b")
    budget_minutes: Positive = Field(description="for the whole sweep, when neither a preset nor a budget is named")
    learning_rate_power: float = Field(
        description="peak learning rate = the preset's × (d_model / the preset's d_model) ^ this"
    )


def read_definition(kind: str) -> Definition:
    """The definition of a kind of sweep: the project's (./presets/sweeps), the user's, or the built-in one.

    Raises UserError with every fault of the file.
    """
    candidates = [folder / "sweeps" / f"{kind}.toml" for _, folder in preset_folders()]
    path = next((path for path in candidates if path.is_file()), None)
    if path is None:
        raise UserError(
            f"There is no definition of the sweep '{kind}'.", expected=" or ".join(shown(path) for path in candidates)
        )
    values = parse(read_text(path, shown(path)), shown(path))
    try:
        return Definition.model_validate(values)
    except ValidationError as error:
        raise UserError([_fault(each, path) for each in error.errors()]) from None


def _fault(error: Any, path: Path) -> Fault:
    key = ".".join(map(str, error["loc"])) or "the file"
    return Fault(f"{key}: {error['msg']}.", where=shown(path), expected=", ".join(Definition.model_fields))
