"""What is compared: residual schemes with their defaults, or overlays, each as an arm of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from attnres_cli.discovery import names
from attnres_cli.errors import ExitCode, UserError, nearest_name
from attnres_cli.preset.catalogue import entries, find
from attnres_cli.sweep.request import by_key
from attnres_cli.sweep.results import Arm

if TYPE_CHECKING:
    from attnres_cli.preset.catalogue import Entry
    from attnres_cli.preset.options import Given
    from attnres_cli.preset.preset import Preset


@dataclass(frozen=True)
class Source:
    """Where the arms of a sweep start: a preset as its user asked for it. given: what options of their own say.
    asked_by: the argument or the file that names the preset."""

    ref: str
    overlays: Sequence[str] = ()
    sets: Sequence[str] = ()
    given: Sequence[Given] = ()
    asked_by: str = "PRESET"

    def load(self, *, residual: str | None = None, overlay: str | None = None) -> Preset:
        """The preset, with a scheme's defaults or one more overlay. Raises UserError with all its faults, and what of
        its data is missing: everything that begins here trains."""
        from attnres_cli.data.inputs import missing_inputs
        from attnres_cli.preset.reading import load_preset

        return load_preset(
            self.ref,
            overlays=[*self.overlays, *([overlay] if overlay else [])],
            residual=residual,
            sets=self.sets,
            given=self.given,
            inputs=missing_inputs,
            asked_by=self.asked_by,
        )

    def without_residual_settings(self) -> Source:
        """The same without any `--set residual.…`: a scheme has its own defaults."""
        return replace(self, sets=[each for each in self.sets if not _sets_residual(each)])


def chosen_arms(source: Source, preset: Preset, asked: Sequence[str], usual: Sequence[str]) -> tuple[Arm, ...]:
    """The schemes asked for; else the usual ones, where a preset's own other scheme takes the place of all but the
    first. preset: what `source` loads."""
    if asked:
        return asked_arms(source, asked)
    own = preset.to_dict()["residual"]
    names = list(usual) if own["scheme"] in usual else [usual[0], own["scheme"]]
    plain = source.without_residual_settings()
    return tuple(Arm(name, own) if name == own["scheme"] else scheme_arm(plain, name) for name in names)


def asked_arms(source: Source, asked: Sequence[str]) -> tuple[Arm, ...]:
    """One arm per `--residual`, in the order given. Raises UserError for contradictions."""
    if lost := [each for each in source.sets if _sets_residual(each)]:
        raise UserError(
            f"--set {lost[0]} has no effect: --residual takes the schemes with their defaults.",
            where="--set",
            hint="a preset with that [residual] section, and no --residual",
            exit_code=ExitCode.USAGE,
        )
    refuse_twice(asked, "--residual", "scheme")
    return tuple(scheme_arm(source, name) for name in asked)


def named_arm(source: Source, preset: Preset, said: str) -> tuple[Arm, Entry | None]:
    """What one name of `--arms` means: a scheme with its defaults, or an overlay, with the file that says it. preset:
    what `source` loads. Raises UserError with the nearest name for one that is neither."""
    schemes = names("residual.schemes")
    if said in schemes:
        return scheme_arm(source.without_residual_settings(), said), None
    overlays = {entry.name for entry in entries("overlay")}
    if said not in overlays:
        known = [*schemes, *sorted(overlays)]
        raise UserError(f"There is no scheme and no overlay '{said}'.", where="--arms",
                        expected="names of residual schemes or overlays", nearest=nearest_name(said, known),
                        hint="attnres presets ls --overlays", exit_code=ExitCode.USAGE)  # fmt: skip
    entry = find(said, "overlay")
    return overlay_arm(source, preset, entry), entry


def own_arm(preset: Preset) -> Arm:
    """The preset's own residual section, under its scheme's name."""
    section = preset.to_dict()["residual"]
    return Arm(section["scheme"], section)


def scheme_arm(source: Source, scheme: str) -> Arm:
    """A scheme with its defaults. Raises UserError with the nearest name for one that does not exist."""
    return Arm(scheme, source.load(residual=scheme).to_dict()["residual"])


def overlay_arm(source: Source, preset: Preset, entry: Entry) -> Arm:
    """An overlay as an arm, with what it says of the paper. preset: what `source` loads without it.

    Raises UserError where the overlay does not fit the preset.
    """
    put_on = source.load(overlay=entry.name)
    before, after = (by_key(each.to_dict()) for each in (preset, put_on))
    changes = {
        key: after.get(key)
        for key in {**before, **after}
        if not key.startswith("residual.") and before.get(key) != after.get(key)
    }
    return Arm(entry.name, put_on.to_dict()["residual"], changes, overlay_facts(entry))


def overlay_facts(entry: Entry) -> Mapping[str, Any]:
    """The overlay's first line and its rows of the paper."""
    return {"summary": entry.summary, "paper": [asdict(row) for row in entry.paper_rows]}


def refuse_twice(names: Sequence[str], option: str, what: str) -> None:
    """Raise UserError when a name is there more than once."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"The {what} '{twice}' is given twice.", where=option, exit_code=ExitCode.USAGE)


def _sets_residual(assignment: str) -> bool:
    return assignment.strip().startswith("residual.")
