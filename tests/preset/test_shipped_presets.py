"""The presets that come with the program: valid, commented in step with the schema, and of the sizes they promise."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from attnres_cli.preset.catalogue import entries
from attnres_cli.preset.reading import check_file, load_preset
from attnres_cli.preset.render import key_comment, refresh_comments
from attnres_cli.shipped import shipped_folder

PRESETS = sorted(path.stem for path in shipped_folder("presets").glob("*.toml"))
OVERLAYS = sorted(path.stem for path in shipped_folder("presets").glob("overlays/*.toml"))
ABLATIONS = sorted(path.stem for path in shipped_folder("presets").glob("ablations/*.toml"))
OVERLAY_FILES = [*(f"overlays/{name}" for name in OVERLAYS), *(f"ablations/{name}" for name in ABLATIONS)]
SIZES = ["cpu-tiny", "cpu-small", "cpu-deep", "gpu-124m", "gpu-350m", "gpu-deep-124m"]


def text_of(name: str) -> str:
    return (shipped_folder("presets") / f"{name}.toml").read_text(encoding="utf-8")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_all_that_are_promised_are_there() -> None:
    assert set(SIZES) <= set(PRESETS)
    assert {"muon", "wsd", "bf16", "attnres-full", "attnres-block", "prenorm"} <= set(OVERLAYS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_shipped_preset_is_valid(name: str) -> None:
    preset = load_preset(name)
    assert (preset.name, preset.notes) == (name, ())


@pytest.mark.parametrize("name", [*OVERLAYS, *ABLATIONS])
def test_a_shipped_overlay_fits_on_every_preset(name: str) -> None:
    checked = check_file(name)
    assert (checked.kind, checked.faults) == ("overlay", ())
    for preset in PRESETS:
        changed = load_preset(preset, overlays=[name])
        said = [origin for origin in changed.origins.values() if f"s/{name}.toml:" in str(origin)]
        assert said


def test_each_says_what_it_is_in_its_first_line() -> None:
    for entry in (*entries("preset"), *entries("overlay")):
        assert 10 < len(entry.summary) < 140, entry.name


@pytest.mark.parametrize("name", [*PRESETS, *OVERLAY_FILES])
def test_comments_are_the_schema_s(name: str) -> None:
    """After a change of the schema: python -m attnres_cli.preset.render presets/*.toml presets/*/*.toml"""
    assert refresh_comments(text_of(name)) == text_of(name)


def test_the_ablations_are_the_paper_s_table_4_and_figure_6() -> None:
    """Validation losses of the 436M model (32 sublayers), and the keys that make the row."""
    table = {
        "prenorm": 1.766, "denseformer": 1.767, "mhc": 1.747, "attnres-full": 1.737, "attnres-full query=input": 1.731,
        "attnres-full query=scalars": 1.749, "attnres-full query=scalars normaliser=raw": 1.749,
        "attnres-full normaliser=sigmoid": 1.741, "attnres-full key_norm=False": 1.743, "attnres-full window=8": 1.764,
        "attnres-block block_sublayers=4": 1.746, "attnres-block block_sublayers=4 depth_heads=16": 1.752,
        "attnres-block block_sublayers=4 key_norm=False": 1.750,
    }  # fmt: skip
    figure = {
        "attnres-full": 1.737, "attnres-block block_sublayers=2": 1.746, "attnres-block block_sublayers=4": 1.746,
        "attnres-block block_sublayers=8": 1.748, "attnres-block block_sublayers=16": 1.753,
        "attnres-block block_sublayers=32": 1.757,
    }  # fmt: skip
    found: dict[str, dict[str, float]] = {"Table 4": {}, "Fig. 6": {}}
    for entry in entries("overlay"):
        if entry.is_ablation:
            said = tomllib.loads(entry.path.read_text(encoding="utf-8"))["residual"]
            scheme = said.pop("scheme")
            for row in entry.paper_rows:
                name = " ".join([scheme, *(f"{key}={value}" for key, value in said.items())])
                found[row.table][name] = row.validation_loss
    assert found == {"Table 4": table, "Fig. 6": figure}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_shows_every_key_with_its_comment(name: str) -> None:
    lines = text_of(name).split("\n")
    for section_name, section in load_preset(name).sections.items():
        start = lines.index(f"[{section_name}]")
        for key in type(section).model_fields:
            comment = key_comment(section_name, key, type(section))
            row = lines.index(comment, start)
            assert lines[row + 1].startswith((f"{key} = ", f"# {key} =")), f"{name} {section_name}.{key}"


@pytest.mark.parametrize("name", SIZES)
def test_a_size_leaves_the_scheme_to_the_other_axis(name: str) -> None:
    """A size trains the baseline; the scheme is chosen beside it."""
    assert load_preset(name).residual == load_preset(name, overlays=["prenorm"]).residual
    assert (
        load_preset(name, residual="attnres-block").residual == load_preset(name, overlays=["attnres-block"]).residual
    )


# Transformer blocks, width, heads, parameters in millions, head tied.
SHAPES = {
    "cpu-tiny": (2, 64, 4, 0.123),
    "cpu-small": (6, 128, 4, 1.73),
    "cpu-deep": (24, 64, 2, 1.30),
    "gpu-124m": (16, 768, 12, 123.5),
    "gpu-350m": (24, 1024, 16, 350.2),
    "gpu-deep-124m": (48, 448, 7, 124.0),
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_as_promised(name: str) -> None:
    from attnres_cli.data.sources import vocabulary_size_of
    from attnres_cli.model.build import build_model

    preset = load_preset(name)
    blocks, width, heads, millions = SHAPES[name]
    assert (preset.model.transformer_blocks, preset.model.d_model, preset.model.num_heads) == (blocks, width, heads)
    model = build_model(preset, vocabulary_size_of(preset.data), device="meta")
    assert sum(each.numel() for each in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.005)
