"""What the options of `attnres bench` ask for: its arms, its depths, and which options exclude each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from attnres_cli.discovery import names
from attnres_cli.errors import ExitCode, UserError, nearest_name

if TYPE_CHECKING:
    from attnres_cli.preset.reading import Preset


def arms_of(
    preset: str,
    residual: Sequence[str],
    overlays: Sequence[str],
    sets: Sequence[str],
    backend: str | None,
    compile_: bool | None,
    *,
    needs_vocabulary: bool,
) -> dict[str, Preset]:
    """The arms by name, the baseline first; a scheme that is given again gets a number.

    needs_vocabulary: whether the preset's tokenizer is asked for its size. Raises UserError.
    """
    from attnres_cli.data.inputs import missing_vocabulary
    from attnres_cli.preset.reading import load_preset
    from attnres_cli.residual.arms import default_arms

    arms: dict[str, Preset] = {}
    inputs = missing_vocabulary if needs_vocabulary else None
    for scheme in residual or default_arms("bench"):
        arm = load_preset(preset, overlays=overlays, residual=scheme, sets=sets, inputs=inputs)
        changes: dict[str, Any] = {} if compile_ is None else {"train.compile": "on" if compile_ else "off"}
        if backend is not None:
            changes |= _backend_change(arm, backend)
        number = sum(scheme in (name, name.rpartition("-")[0]) for name in arms) + 1
        arms[scheme if number == 1 else f"{scheme}-{number}"] = arm.replace(changes) if changes else arm
    for note in dict.fromkeys(note for arm in arms.values() for note in arm.notes):
        typer.echo(f"note: {note}", err=True)
    return arms


def _backend_change(arm: Preset, backend: str) -> dict[str, str]:
    """A scheme without a choice of back end is left as it is; a name that nobody has is refused."""
    known = ("auto", *names("residual.ops"))
    if backend not in known:
        raise _usage(
            f"There is no back end '{backend}'.",
            where="--backend",
            expected=", ".join(known),
            nearest=nearest_name(backend, known),
        )
    return {"residual.backend": backend} if hasattr(arm.residual, "backend") else {}


def depths_of(text: str | None) -> list[int]:
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise _usage(
            f"'{text}' is no list of depths.",
            where="--depth",
            expected="numbers of transformer blocks, such as 8,16,32",
        )
    return sorted({int(part) for part in parts})


def refuse_together(
    *,
    operator: bool,
    depth: str | None,
    mode: str,
    compile_: bool | None,
    prompt_tokens: int | None,
    vocab_size: int | None,
) -> None:
    """Options that would be ignored beside others are refused instead."""
    modes = names("bench.modes")
    if mode not in modes:
        raise _usage(
            f"There is no mode '{mode}'.", where="--mode", expected=", ".join(modes), nearest=nearest_name(mode, modes)
        )
    if operator and (mode != "train" or any(each is not None for each in (depth, compile_, vocab_size))):
        raise _usage(
            "--operator times the residual path alone: without --depth, --mode, --compile and --vocab-size.",
            where="--operator",
        )
    from attnres_cli.bench.work import load_mode

    has_prompt = not operator and load_mode(mode).HAS_PROMPT
    if compile_ and has_prompt:
        raise _usage(f"--mode {mode} is not compiled; --compile is for train and forward.", where="--compile")
    if prompt_tokens is not None and not has_prompt:
        raise _usage("--prompt-tokens is the length of a prompt; this bench reads none.", where="--prompt-tokens")


def _usage(what: str, **details: str | None) -> UserError:
    return UserError(what, exit_code=ExitCode.USAGE, **details)
