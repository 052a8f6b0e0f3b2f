"""Every error of every section at once, each with its line, what was expected, and the nearest valid name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.errors import Fault, UserError
from attnres_cli.preset.other_names import NOT_HERE, THEIRS
from attnres_cli.preset.reading import check_file, load_preset, preset_from_dict
from attnres_cli.preset.variants import PROGRAM, all_models

Write = Callable[[str, str], Path]

# One of every mistake; each comment says what its error says: a part of `what` | of `expected` | the nearest name.
MANY = """\
extends = "base.toml"
seed = 3                      # stands outside its section | seed below [train] |
eval = 3                      # eval is a section | [eval] |
[modle]                       # no section [modle] | [model], | model
[model]
d_modl = 65                   # no key 'd_modl' | | d_model
tie_embeddings = "yes"        # is text | true or false |
horizon_tokens = 3            # no key 'horizon_tokens' | horizon_tokens below [train] |
rope_theta = inf              # out of range | number > 0 |
mixer = "attnetion"           # no sequence mixer | attention, convolution | attention
feed_forward = 3              # is an integer | string |
num_kv_heads = 3              # num_heads = 4 is no multiple of num_kv_heads = 3 | num_kv_heads = 2 or 4 |
head_dim = 15                 # head size 15 is odd | such as 16 |
[residual]
scheme = "plain"
num_blocks = 3                # no key 'num_blocks' with scheme = "plain" | scheme = "blocks", which has it |
d_ff = 3                      # no key 'd_ff' | d_ff below [model] |
[data]
files = "b.txt"               # is text | list of strings: files = ["b.txt"] |
tokenizer = 4096              # is an integer | string |
validation_fraction = 1       # out of range | number > 0, < 1 |
undecodable = "replce"        # is not a choice | "replace" or "strict" | replace
[train]
learnig_rate = 1              # no key 'learnig_rate' | | learning_rate
micro_batch_sequences = 3     # does not divide the 4 sequences | micro_batch_sequences = 2 or 4 |
schedule = "cosin"            # is not a choice | "cosine" or "wsd" | cosine
decay_fraction = 0.1
muon_learning_rate = 0.1      # does nothing here | no muon_learning_rate |
precision = 16                # is an integer | "fp32" or "bf16" |
seed = -1                     # out of range | integer >= 0 |
threads = 1.5                 # a number with a fraction | integer >= 0 |
device = "gpu"                # is not valid | cuda:N |
log_every_steps = "5"         # is text | without quotes: log_every_steps = 5 |
checkpoint_every_steps = true # is true or false | integer >= 0 |
beta1 = 1979-05-27            # | number >= 0 |
horizon_tokens = {a = 1}      # is a table | integer > 0 |
[observe]
observers = ["magnitude"]     # no observer | depth-weights, gradients, magnitudes | magnitudes
every_steps = [1]             # is a list | integer >= 0 |
"""


def faults_of(ref: str, members: Any, **options: Any) -> tuple[Fault, ...]:
    with pytest.raises(UserError) as caught:
        load_preset(ref, members=members, **options)
    assert caught.value.exit_code == 3
    return caught.value.faults


def test_all_errors_of_all_sections_with_their_lines(members: Any, write: Write) -> None:
    write("many.toml", MANY)
    faults = faults_of("many.toml", members)
    remarks = {number: line.partition("#")[2] for number, line in enumerate(MANY.split("\n"), start=1) if "#" in line}
    assert [str(fault.where).split(", ")[0] for fault in faults] == [f"many.toml:{number}" for number in remarks]
    for fault, remark in zip(faults, remarks.values(), strict=True):
        what, expected, nearest = (part.strip() for part in remark.split("|"))
        assert what in fault.what
        assert expected in (fault.expected or "")
        assert (fault.nearest or "") == nearest, fault
        assert fault.what.endswith("."), fault


def test_the_origin_may_be_a_parent_an_overlay_or_an_option(members: Any, write: Write) -> None:
    write("parent.toml", 'extends = "base.toml"\n[train]\nbeta1 = 2\n')
    write("child.toml", 'extends = "parent.toml"\n[train]\nbeta2 = 2\n')
    write("overlay.toml", "[train]\n\ngrad_clip = -1\n")
    faults = faults_of("child.toml", members, overlays=["overlay.toml"], sets=["train.seed=x", "train.weight_decay=-1"])
    assert {(fault.where, fault.what.split()[1]) for fault in faults} == {
        ("parent.toml:3", "beta1"),
        ("child.toml:3", "beta2"),
        ("overlay.toml:3", "grad_clip"),
        ("--set train.seed=x", "is"),
        ("--set train.weight_decay=-1", "weight_decay"),
    }


def test_what_is_missing(members: Any, write: Write) -> None:
    write("few.toml", "[model]\nd_model = 8\n\n[data]\n\n[residual]\nscheme = 'plain'\n[train]\n")
    faults = faults_of("few.toml", members)
    assert [(fault.where, fault.what) for fault in faults] == [
        ("few.toml", "The section [eval] is missing."),
        ("few.toml:1", "[model] transformer_blocks is missing."),
        ("few.toml:1", "[model] num_heads is missing."),
        ("few.toml:1", "[model] context_tokens is missing."),
        ("few.toml:4", "[data] corpus is missing."),
        ("few.toml:8", "[train] horizon_tokens is missing."),
        ("few.toml:8", "[train] tokens_per_step is missing."),
        ("few.toml:8", "[train] micro_batch_sequences is missing."),
        ("few.toml:8", "[train] learning_rate is missing."),
    ]
    assert "integer > 0" in str(faults[1].expected)
    assert "query heads" in str(faults[2].expected)


def test_extends_below_a_section(members: Any, write: Write) -> None:
    write("a.toml", Path("base.toml").read_text() + 'extends = "x"\n')
    (fault,) = faults_of("a.toml", members)
    assert fault.expected == "extends above the first [section]"


def test_a_misspelt_section_is_one_error(members: Any, write: Write) -> None:
    text = Path("base.toml").read_text().replace("[eval]", "[eval2]")
    write("a.toml", text)
    (fault,) = faults_of("a.toml", members)
    assert fault.nearest == "eval"


def test_a_misspelt_key_is_one_error_and_hides_no_other(members: Any, write: Write) -> None:
    text = Path("base.toml").read_text().replace("d_model =", "dmodel =").replace("= 64\n\n[eval]", "= 64\n[eval]")
    write("a.toml", text.replace("micro_batch_sequences = 2", "micro_batch_sequences = 3"))
    faults = faults_of("a.toml", members)
    assert [fault.nearest for fault in faults] == ["d_model", None]
    assert "micro_batch_sequences" in faults[1].what


@pytest.mark.parametrize(
    ("section", "variant", "ours", "shared"),
    [("data", "corpus", "length", "validation_fraction = 3"), ("residual", "scheme", "num_blocks", "gain = 3")],
)
@pytest.mark.parametrize("said", ["nope", None])
@pytest.mark.parametrize("overlay", [False, True])
def test_an_unknown_form_of_a_section_hides_nothing(
    section: str, variant: str, ours: str, shared: str, said: str | None, overlay: bool, members: Any, write: Write
) -> None:
    """Neither keys that no scheme or corpus has, nor values that none of them takes."""
    form = f'{variant} = "{said}"' if said else "# says not which"
    lines = [f"[{section}]", form, f"{ours[1:]} = 3", "nested.key = 3", f"{ours} = 3", shared]
    others = "" if overlay else _without(Path("base.toml").read_text(), section)
    write("a.toml", "\n".join(lines) + "\n" + others)
    faults = check_file("a.toml", members=members).faults
    what = {each.where: each for each in faults}
    assert len(what) == len(faults)
    assert set(what) - {"a.toml:1", "a.toml:2"} == {"a.toml:3", "a.toml:4", "a.toml:6"}
    assert what["a.toml:3"].what == f"[{section}] has no key '{ours[1:]}' with any {variant}."
    assert (what["a.toml:3"].nearest, what["a.toml:4"].nearest) == (ours, None)
    about_the_form = set(what) & {"a.toml:1", "a.toml:2"}
    if said:
        assert about_the_form == {"a.toml:2"}
    else:  # an overlay leaves it to the preset below
        assert about_the_form == (set() if overlay else {"a.toml:1"})


def _without(text: str, section: str) -> str:
    """A preset without one of its sections."""
    return "\n[".join(part for part in text.split("\n[") if not part.startswith(section))


def test_a_misspelt_variant_key_is_one_error(members: Any, write: Write) -> None:
    write("a.toml", Path("base.toml").read_text().replace('corpus = "files"', 'corpsu = "files"'))
    (fault,) = faults_of("a.toml", members)
    assert (fault.what, fault.nearest) == ("[data] has no key 'corpsu' with any corpus.", "corpus")


def test_an_unknown_corpus_below_another_hides_no_key(members: Any, write: Write) -> None:
    write("parent.toml", 'extends = "base.toml"\n[data]\ncorpus = "fils"\nlenth = 3\nfiles = ["x"]\n')
    write("child.toml", 'extends = "parent.toml"\n[data]\ncorpus = "puzzle"\n')
    faults = faults_of("child.toml", members)
    assert [(each.where, each.nearest) for each in faults] == [("parent.toml:3", "files"), ("parent.toml:4", "length")]


@pytest.mark.parametrize(
    ("section", "key", "nearest"),
    [
        ("train", "lr", "learning_rate"),
        ("train", "wd", "weight_decay"),
        ("train", "bs", "micro_batch_sequences"),
        ("train", "steps", "horizon_tokens"),
        ("train", "max_iters", "horizon_tokens"),
        ("train", "max-iters", "horizon_tokens"),
        ("train", "mlr", None),  # initials of muon_learning_rate and of min_lr_ratio
        ("train", "tps", "tokens_per_step"),
        ("train", "n_layer", "model.transformer_blocks"),
        ("train", "eval_interval", "eval.every_steps"),
        ("model", "n_layer", "transformer_blocks"),
        ("model", "n_head", "num_heads"),
        ("model", "n_embd", "d_model"),
        ("model", "hidden_size", "d_model"),
        ("model", "block_size", "context_tokens"),
        ("model", "dropout", None),
        ("model", "bias", None),
        ("residual", "block_size", "block_sublayers"),
        ("data", "block_size", "model.context_tokens"),
        ("eval", "eval_iters", "tokens"),
        ("observe", "interval", "every_steps"),
    ],
)
@pytest.mark.parametrize("in_file", [True, False])
def test_names_that_other_programs_have(
    section: str, key: str, nearest: str | None, in_file: bool, members: Any, write: Write
) -> None:
    """In a file and in --set alike."""
    write("blocks.toml", 'extends = "base.toml"\n[residual]\nscheme = "blocks"\n')
    write("a.toml", f'extends = "blocks.toml"\n[{section}]\n{key} = 3\n')
    sets = [] if in_file else [f"{section}.{key}=3"]
    (fault,) = faults_of("a.toml" if in_file else "blocks.toml", members, sets=sets)
    assert fault.nearest == nearest
    if nearest is not None and "." in nearest:
        home, _, ours = nearest.partition(".")
        assert fault.expected == f"{ours} below [{home}]"
    if key in ("dropout", "bias"):
        assert fault.expected is not None
        assert fault.expected.startswith("no such key: ")


def test_a_key_under_its_name_elsewhere_is_not_missing_besides(members: Any, write: Write) -> None:
    text = Path("base.toml").read_text().replace("transformer_blocks =", "n_layer =").replace("learning_rate =", "lr =")
    write("a.toml", text)
    assert [each.nearest for each in faults_of("a.toml", members)] == ["transformer_blocks", "learning_rate"]
    write("b.toml", "lr = 3\n" + Path("base.toml").read_text())
    assert [each.nearest for each in faults_of("b.toml", members)] == ["train.learning_rate"]


def test_every_name_of_another_program_leads_to_a_key_of_ours() -> None:
    for section, names in THEIRS.items():
        models = all_models(section, PROGRAM).values()
        ours = {key for model in models for key in model.model_fields}
        assert set(names.values()) <= ours
        assert not set(names) & ours, "a name that is ours needs no translation"
        assert not set(NOT_HERE) & ours


def test_what_a_section_says_about_several_of_its_keys(members: Any, write: Write) -> None:
    write("p.toml", 'extends = "base.toml"\n[data]\ncorpus = "puzzle"\ntask = "hops"\nhops = 9\n')
    (fault,) = faults_of("p.toml", members)
    assert (fault.what, fault.where) == ("hops = 9 needs a larger length.", "p.toml:5")
    (fault,) = faults_of("p.toml", members, sets=["data.hops=3", "data.length=2"])
    assert fault.where == "--set data.hops=3, --set data.length=2"


def test_a_scheme_checks_itself_against_the_model(members: Any, write: Write) -> None:
    write("b.toml", 'extends = "base.toml"\n[residual]\nscheme = "blocks"\nnum_blocks = 5\n')
    (fault,) = faults_of("b.toml", members)
    assert (fault.what, fault.where) == ("num_blocks = 5 is more than the 4 sublayers.", "b.toml:4")
    assert fault.expected == "1 to 4"
    faults = faults_of("b.toml", members, sets=["residual.gain=3", "model.rope_theta=-1"])
    assert len(faults) == 3, "wrong values elsewhere hide nothing"
    assert len(faults_of("b.toml", members, sets=["model.transformer_blocks=-1"])) == 1, (
        "no verdict about a wrong value"
    )


def test_values_of_a_program_are_named_by_their_source(members: Any, project: Path) -> None:
    values = load_preset("base.toml", members=members).to_dict()
    values["train"]["seed"] = -1
    with pytest.raises(UserError) as caught:
        preset_from_dict(values, "sweep cell 3", members=members)
    assert caught.value.faults[0].where == "sweep cell 3"
