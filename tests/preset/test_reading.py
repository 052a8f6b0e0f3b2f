"""What is said where, and what wins: extends, overlays, --residual, --set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import UserError
from attnres_cli.preset.options import Given
from attnres_cli.preset.reading import Preset, check_file, load_preset, preset_from_dict

Write = Callable[[str, str], Path]


@pytest.fixture
def load(members: Any, project: Path) -> Callable[..., Preset]:
    def load_with(ref: str | Path = "base.toml", **options: Any) -> Preset:
        return load_preset(ref, members=members, **options)

    return load_with


Load = Callable[..., Preset]


def fault(load: Load, *arguments: Any, **options: Any) -> Any:
    """The one fault that loading ends in."""
    with pytest.raises(UserError) as caught:
        load(*arguments, **options)
    assert len(caught.value.faults) == 1, caught.value.faults
    return caught.value.faults[0]


def test_a_file_by_path(load: Load, project: Path) -> None:
    preset = load()
    assert (preset.name, preset.model.d_model, preset.residual.scheme, preset.train.optimizer) == (
        "base",
        64,
        "plain",
        "adamw",
    )
    assert preset.source_path == project / "base.toml"
    assert preset.source_text == (project / "base.toml").read_text()
    assert preset.source_folder == project
    assert str(preset.origins["model.d_model"]) == "base.toml:4"
    assert str(preset.origins["train.optimizer"]) == "default"
    assert load(project / "base.toml") == preset


def test_names_of_the_project_folder(load: Load, project: Path, write: Write) -> None:
    write("presets/mine.toml", 'extends = "../base.toml"\n')
    assert load("mine").name == "mine"


def test_extends_by_path_and_by_name_over_three_files(load: Load, write: Write) -> None:
    write("presets/middle.toml", 'extends = "../base.toml"\n[model]\nd_model = 128\n[train]\nseed = 1\n')
    write("deep/top.toml", 'extends = "middle"\n[train]\nseed = 2\n')
    preset = load("deep/top.toml")
    assert (preset.model.d_model, preset.train.seed, preset.model.num_heads) == (128, 2, 4)
    assert str(preset.origins["model.d_model"]) == "presets/middle.toml:3"
    assert str(preset.origins["train.seed"]) == "deep/top.toml:3"
    assert str(preset.origins["model.num_heads"]) == "base.toml:5"
    assert preset.name == "top"


def test_extends_in_a_circle(load: Load, write: Write) -> None:
    write("a.toml", '# one\nextends = "b.toml"\n')
    write("b.toml", 'extends = "./a.toml"\n')
    found = fault(load, "a.toml")
    assert "a.toml → b.toml → a.toml" in found.what
    assert found.where == "b.toml:1"
    write("three.toml", 'extends = "a.toml"\n')
    assert "a.toml → b.toml → a.toml" in fault(load, "three.toml").what


@pytest.mark.parametrize("extends", ["self", "self.toml", "./self.toml"])
def test_a_preset_that_extends_itself(extends: str, load: Load, write: Write, members: Any) -> None:
    """It is not proposed to itself, neither in the list nor as the nearest."""
    write("presets/self.toml", f'# mine\nextends = "{extends}"\n[train]\nseed = -1\n')
    with pytest.raises(UserError) as caught:
        load("self")
    (found, other) = caught.value.faults
    assert found.what.startswith("presets/self.toml extends itself in a circle")
    assert (found.where, found.nearest, found.expected) == (
        "presets/self.toml:2",
        None,
        "another preset, or no extends",
    )
    assert other.where == "presets/self.toml:4"
    assert check_file("presets/self.toml", members=members).faults == caught.value.faults


def test_a_misspelt_parent_is_not_the_file_itself(load: Load, write: Write) -> None:
    write("presets/sefl.toml", "extends = 'self'\n")
    found = fault(load, "sefl")
    assert (found.what, found.nearest) == ("There is no preset 'self'.", None)
    assert "cpu-tiny" in found.expected
    assert "sefl" not in found.expected
    write("lone/slef.toml", "extends = './self.toml'\n")
    assert fault(load, "lone/slef.toml").nearest is None
    write("lone/selv.toml", "")
    assert fault(load, "lone/slef.toml").nearest == "lone/selv.toml"


def test_an_overlay_extends_overlays_however_it_is_found(load: Load, write: Write, members: Any) -> None:
    write("presets/overlays/quick.toml", "[train]\nseed = 3\n")
    write("presets/overlays/mine.toml", 'extends = "quick"\n[train]\nthreads = 1\n')
    for ref in ("mine", "presets/overlays/mine.toml"):
        assert check_file(ref, members=members).faults == ()
        assert load(overlays=[ref]).train.seed == 3
    write("presets/overlays/self.toml", 'extends = "self"\n')
    for ref in ("self", "presets/overlays/self.toml"):
        (found,) = check_file(ref, members=members).faults
        assert "extends itself in a circle: it hides no other overlay 'self'" in found.what


def test_a_file_below_the_one_that_hides_it_may_not_extend_it(load: Load, write: Write, user_presets: Path) -> None:
    (user_presets / "mine.toml").write_text('extends = "mine"\n')
    write("presets/mine.toml", 'extends = "mine"\n')
    found = fault(load, "mine")
    assert found.what.startswith(f"{user_presets / 'mine.toml'} extends itself in a circle")
    assert found.where == f"{user_presets / 'mine.toml'}:1"


def test_extends_of_what_is_not_there(load: Load, write: Write) -> None:
    write("a.toml", '\nextends = "bse.toml"\n')
    found = fault(load, "a.toml")
    assert (found.where, found.nearest) == ("a.toml:2", "base.toml")
    write("b.toml", 'extends = "cpu-tny"\n')
    found = fault(load, "b.toml")
    assert (found.where, found.nearest) == ("b.toml:1", "cpu-tiny")
    write("c.toml", 'extends = ["base", "cpu-tiny"]\n')
    assert fault(load, "c.toml").where == "c.toml:1"


@pytest.mark.parametrize(
    ("extends", "parent", "said"),
    [
        ("cpu-tny", "", "There is no preset 'cpu-tny'."),
        ("gone.toml", "", "There is no file gone.toml."),
        ("other.toml", 'extends = "broken.toml"\n', "circle"),
        ("other.toml", "[train]\nseed =\n", "other.toml"),
        ("other.toml", 'extends = "gone.toml"\n[train]\nlog_every_steps = 0\n', "There is no file gone.toml."),
    ],
)
def test_a_broken_extends_hides_nothing(
    extends: str, parent: str, said: str, load: Load, write: Write, members: Any
) -> None:
    write("other.toml", parent)
    write("broken.toml", f'extends = "{extends}"\n[train]\nlearnig_rate = 1\nseed = -1\n[modle]\nd_model = 3\n')
    checked = check_file("broken.toml", members=members)
    assert checked.kind == "preset"
    assert any(said in f"{each.what} {each.where}" for each in checked.faults)
    own = [
        each
        for each in checked.faults
        if (each.where or "").startswith("broken.toml:") and each.where != "broken.toml:1"
    ]
    assert [(each.where, each.nearest) for each in own] == [
        ("broken.toml:3", "learning_rate"),
        ("broken.toml:4", None),
        ("broken.toml:5", "model"),
    ]
    assert not any("is missing" in each.what for each in checked.faults)  # the parent may say it
    assert ("log_every_steps = 0" in str(checked.faults)) == ("log_every_steps" in parent)
    with pytest.raises(UserError) as caught:
        load("broken.toml", sets=["train.beta1=2"])
    faults = caught.value.faults
    assert set(checked.faults) < set(faults)
    assert [each.where for each in faults if each not in checked.faults] == ["--set train.beta1=2"]


def test_options_that_stand_for_a_key_come_last_and_are_named(load: Load, members: Any, project: Path) -> None:
    preset = load(sets=["train.seed=3"], given=[Given("--seed 5", "train.seed", 5)])
    assert preset.train.seed == 5
    assert str(preset.origins["train.seed"]) == "--seed 5"
    with pytest.raises(UserError) as caught:
        load(given=[Given("--device cdua", "train.device", "cdua"), Given("--seed -1", "train.seed", -1)])
    assert {each.where for each in caught.value.faults} == {"--device cdua", "--seed -1"}
    with pytest.raises(UserError) as caught:
        preset.replace({"train.horizon_tokens": 0}, said_by="--steps 0")
    assert caught.value.faults[0].where == "--steps 0"


def test_a_preset_may_extend_the_one_it_hides(write: Write, project: Path) -> None:
    """A project's own cpu-tiny, made from the built-in one."""
    write("presets/cpu-tiny.toml", 'extends = "cpu-tiny"\n[train]\nseed = 7\n')
    preset = load_preset("cpu-tiny")
    assert preset.train.seed == 7
    assert preset.model == load_preset("cpu-tiny", sets=["train.seed=0"]).model
    assert len(preset.notes) == 1
    assert preset.notes[0].startswith("preset 'cpu-tiny' is presets/cpu-tiny.toml; it hides ")


def test_overlays_in_order_then_residual_then_sets(load: Load, write: Write) -> None:
    write("one.toml", "[train]\nseed = 1\nlog_every_steps = 1\n[residual]\nscheme = 'blocks'\nnum_blocks = 2\n")
    write("two.toml", "[train]\nseed = 2\n")
    preset = load(overlays=["one.toml", "two.toml"])
    assert (preset.train.seed, preset.train.log_every_steps, preset.residual.scheme) == (2, 1, "blocks")
    assert str(preset.origins["train.seed"]) == "two.toml:2"
    assert load(overlays=["two.toml", "one.toml"]).train.seed == 1
    preset = load(overlays=["one.toml"], residual="blocks", sets=["train.seed=3", "train.seed=4"])
    assert preset.residual.num_blocks is None, "--residual takes the scheme's defaults"
    assert preset.train.seed == 4
    assert str(preset.origins["residual.scheme"]) == "--residual blocks"
    assert str(preset.origins["train.seed"]) == "--set train.seed=4"
    assert load(residual="blocks", sets=["residual.num_blocks=3"]).residual.num_blocks == 3


def test_overlays_by_name(load: Load, write: Write) -> None:
    write("presets/overlays/big.toml", "[model]\nd_model = 256\n")
    assert load(overlays=["big"]).model.d_model == 256
    found = fault(load, overlays=["bgi"])
    assert found.nearest == "big"
    write("presets/whole.toml", 'extends = "../base.toml"\n')
    assert "whole preset" in fault(load, overlays=["whole"]).expected


def test_an_overlay_is_no_preset(load: Load, write: Write) -> None:
    path = write("presets/overlays/big.toml", "[train]\nseed = 2\n")
    assert "is an overlay" in fault(load, "big").expected
    assert "no whole preset" in fault(load, str(path)).what


def test_another_scheme_starts_anew(load: Load, write: Write) -> None:
    write("blocks.toml", 'extends = "base.toml"\n[residual]\nscheme = "blocks"\nnum_blocks = 2\ngain = false\n')
    assert load("blocks.toml", sets=["residual.scheme=plain"]).to_dict()["residual"] == {"scheme": "plain"}
    kept = load("blocks.toml", sets=["residual.scheme=blocks", "residual.num_blocks=3"]).to_dict()["residual"]
    assert kept == {"scheme": "blocks", "gain": False, "num_blocks": 3}
    write("typo.toml", 'extends = "base.toml"\n[residual]\nscheme = "blocks"\nnum_block = 2\n')
    misspelt = fault(load, "typo.toml", sets=["residual.scheme=plain"])
    assert (misspelt.where, misspelt.nearest) == ("typo.toml:4", "num_blocks")


def test_another_corpus_keeps_what_all_have(load: Load) -> None:
    preset = load(sets=["data.validation_fraction=0.2", "data.corpus=puzzle"])
    assert preset.to_dict()["data"] == {
        "corpus": "puzzle", "validation_fraction": 0.2, "tokenizer": "none", "task": "copy", "length": 8,
    }  # fmt: skip


def test_keys_that_exclude_each_other(load: Load, write: Write) -> None:
    write("blocks.toml", 'extends = "base.toml"\n[residual]\nscheme = "blocks"\nnum_blocks = 2\n')
    preset = load("blocks.toml", sets=["residual.block_sublayers=1"])
    assert (preset.residual.num_blocks, preset.residual.block_sublayers) == (None, 1)
    write("both.toml", 'extends = "blocks.toml"\n[residual]\nnum_blocks = 3\nblock_sublayers = 1\n')
    found = fault(load, "both.toml")
    assert "num_blocks and block_sublayers" in found.what
    assert found.where == "both.toml:3, both.toml:4"


def test_a_setting_that_does_nothing_is_refused(load: Load, write: Write) -> None:
    found = fault(load, sets=["train.decay_fraction=0.1"])
    assert found.where == "--set train.decay_fraction=0.1"
    assert 'only with schedule = "wsd"' in found.what
    assert "(the default)" in found.what
    write("wsd.toml", 'extends = "base.toml"\n[train]\nschedule = "wsd"\ndecay_fraction = 0.1\n')
    assert load("wsd.toml").train.decay_fraction == 0.1
    write("both.toml", 'extends = "base.toml"\n[train]\ndecay_fraction = 0.1\nschedule = "cosine"\n')
    found = fault(load, "both.toml")
    assert found.where == "both.toml:3"
    assert "(both.toml:4)" in found.what
    assert "muon_learning_rate" in fault(load, sets=["train.muon_learning_rate=0.1"]).what
    assert load(sets=["train.optimizer=muon", "train.muon_learning_rate=0.1"]).train.muon_learning_rate == 0.1
    assert "observers is empty" in fault(load, sets=["observe.observers=[]", "observe.every_steps=5"]).what
    assert "undecodable" in fault(load, sets=["data.corpus=puzzle", "data.undecodable=strict"]).what
    assert "hops" in fault(load, sets=["data.corpus=puzzle", "data.hops=3"]).what


def test_a_later_layer_may_make_a_setting_meaningless(load: Load, write: Write) -> None:
    """Overlays and options work on any preset, whatever it sets."""
    write("wsd.toml", 'extends = "base.toml"\n[train]\nschedule = "wsd"\ndecay_fraction = 0.1\n')
    preset = load("wsd.toml", sets=["train.schedule=cosine"])
    assert preset == load()
    assert str(preset.origins["train.decay_fraction"]) == "default"
    write("puzzle.toml", 'extends = "base.toml"\n[data]\ncorpus = "puzzle"\ntask = "hops"\nhops = 3\n')
    assert load("puzzle.toml", sets=["data.task=copy"]).data.hops == 2


def test_relative_paths_belong_to_the_file_that_says_them(load: Load, write: Write, project: Path) -> None:
    write("far/away.toml", 'extends = "../base.toml"\n')
    assert load("far/away.toml").data.files == (str(project / "a.txt"),)
    write("far/own.toml", 'extends = "../base.toml"\n[data]\nfiles = ["*.txt", "~/x", "/abs/y"]\n')
    files = load("far/own.toml").data.files
    assert files == (str(project / "far/*.txt"), str(Path("~/x").expanduser()), "/abs/y")
    assert load("far/own.toml", sets=['data.files=["b.txt"]']).data.files == (str(project / "b.txt"),)
    write("fa[r]/own.toml", 'extends = "../base.toml"\n[data]\nfiles = ["*.txt"]\n')
    assert load("fa[r]/own.toml").data.files == (str(project / "fa[[]r]/*.txt"),)
    write("ranks.tiktoken", "")
    write("bytes", "a file that happens to have a tokenizer's name")
    assert load(sets=["data.tokenizer=ranks.tiktoken"]).data.tokenizer == str(project / "ranks.tiktoken")
    assert load(sets=["data.tokenizer=bytes"]).data.tokenizer == "bytes"


@pytest.mark.parametrize(
    ("assignment", "section", "key", "value"),
    [
        ("train.seed=3", "train", "seed", 3),
        (" train.seed = 3 ", "train", "seed", 3),
        ("train.learning_rate=1", "train", "learning_rate", 1.0),
        ("train.horizon_tokens=1e6", "train", "horizon_tokens", 1_000_000),
        ("train.horizon_tokens=1_000", "train", "horizon_tokens", 1000),
        ("train.schedule=wsd", "train", "schedule", "wsd"),
        ('train.schedule="wsd"', "train", "schedule", "wsd"),
        ("train.device=cuda:0", "train", "device", "cuda:0"),
        ("data.tokenizer=a=b#c.tiktoken", "data", "tokenizer", "a=b#c.tiktoken"),
        ("model.tie_embeddings=false", "model", "tie_embeddings", False),
        ('observe.observers=["gradients"]', "observe", "observers", ("gradients",)),
        ("observe.observers=[]", "observe", "observers", ()),
    ],
)  # fmt: skip
def test_set_takes_toml_values_and_plain_words(load: Load, assignment: str, section: str, key: str, value: Any) -> None:
    found = getattr(getattr(load(sets=[assignment]), section), key)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("assignment", "expected", "hint"),
    [
        ("train.seed=abc", "integer >= 0", None),
        ("train.seed=1 2", "integer >= 0", None),
        ("train.seed=1 # one", "integer >= 0", None),
        ("train.learning_rate=1e-3x", "number > 0", None),
        ("observe.observers=gradients", "list of strings", """--set 'observe.observers=["gradients"]'"""),
        ("model.tie_embeddings=no", "true or false", "--set model.tie_embeddings=false"),
        ("model.tie_embeddings=True", "true or false", "--set model.tie_embeddings=true"),
        ("train.schedule='wsd", "single quotes for the shell", None),
        ("observe.observers=[gradients]", "single quotes for the shell", None),
        ("train.seed=", "--set train.seed=VALUE", None),
        ("train.seed", "--set train.seed=VALUE", None),
        ("seed=3", "--set train.seed=3", None),
        ("=3", "--set section.key=3", None),
        ("", "--set section.key=VALUE", None),
    ],
)  # fmt: skip
def test_set_explains_itself(load: Load, assignment: str, expected: str, hint: str | None) -> None:
    found = fault(load, sets=[assignment])
    assert found.where == f"--set {assignment}"
    assert expected in found.expected
    assert found.hint == hint


def test_set_of_names_that_are_not_there(load: Load) -> None:
    assert fault(load, sets=["train.sede=1"]).nearest == "seed"
    assert fault(load, sets=["trian.seed=1"]).nearest == "train"
    assert fault(load, sets=["sede=1"]).nearest == "train.seed"
    assert fault(load, sets=["lr=1"]).nearest == "train.learning_rate"
    assert fault(load, sets=["mbs=1"]).nearest == "train.micro_batch_sequences"
    assert "dropped out" in fault(load, sets=["dropout=0.1"]).expected
    assert "[model]" in fault(load, sets=["train.d_model=1"]).expected
    assert fault(load, residual="block").nearest == "blocks"


def test_files_that_cannot_be_read(load: Load, write: Write, project: Path) -> None:
    found = fault(load, "bse.toml")
    assert (found.nearest, "no file bse.toml" in found.what) == ("base.toml", True)
    assert "is a folder" in fault(load, project).what
    (project / "latin.toml").write_bytes(b"[model]\n# caf\xe9\nd_model = 3\n")
    assert fault(load, "latin.toml").where == "latin.toml:2"
    (project / "marked.toml").write_bytes(
        b"\xef\xbb\xbf" + (project / "base.toml").read_bytes().replace(b"\n", b"\r\n")
    )
    assert load("marked.toml") == load()


def test_values_of_a_program(members: Any, load: Load, project: Path) -> None:
    preset = load(residual="blocks")
    again = preset_from_dict(preset.to_dict(), "again", members=members)
    assert again == preset
    assert again.name == "again"
    with pytest.raises(UserError, match="no section"):
        preset_from_dict({**preset.to_dict(), "trian": {}}, "again", members=members)
    assert preset_from_dict({**preset.to_dict(), "observe": {"every_steps": None}}, "x", members=members) == preset


def test_judging_one_file(members: Any, write: Write, project: Path) -> None:
    assert check_file("base.toml", members=members).faults == ()
    write("over.toml", "[residual]\nnum_blocks = 2\n[train]\ndecay_fraction = 0.3\n")
    checked = check_file("over.toml", members=members)
    assert (checked.kind, checked.faults) == ("overlay", ())
    write("presets/overlays/wide.toml", "[model]\nd_model = 65\n")
    assert check_file("wide", members=members).kind == "overlay"
    write(
        "bad.toml",
        "[residual]\nnum_block = 2\n[train]\nseed = -1\nschedule = 'cosine'\ndecay_fraction = 0.3\n"
        "[data]\ncorpus='nope'\n",
    )
    faults = check_file("bad.toml", members=members).faults
    assert [each.where for each in faults] == ["bad.toml:2", "bad.toml:4", "bad.toml:6", "bad.toml:8"]
    write("broken.toml", "[train]\nseed =\n")
    assert [each.where for each in check_file("broken.toml", members=members).faults] == ["broken.toml:2"]
    assert len(check_file("nowhere", members=members).faults) == 1
    write("empty.toml", "# nothing yet\n")
    assert [each.what for each in check_file("empty.toml", members=members).faults] == ["empty.toml says nothing."]
    write("part.toml", "[model]\nd_model = 64\n")
    checked = check_file("part.toml", members=members)
    assert checked.kind == "preset"
    assert "The section [data] is missing." in [each.what for each in checked.faults]
