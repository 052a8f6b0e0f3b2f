"""`from attnres_cli.residual import …` in somebody else's model: the constructor, the loop, and the page about them."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import attnres_cli.residual as library
from attnres_cli.model.build import build_model
from attnres_cli.residual import UserError, acts_on_projections, initialise, make_residual, scheme_names, sites
from tests.small import RESIDUALS, small_model, small_preset, tokens_and_targets

PAGE = Path(__file__).parents[2] / "docs" / "use-in-your-model.md"
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLAIN, HUGGING_FACE = PAGE.read_text(encoding="utf-8").split("\n## A Hugging Face model\n")


def run_blocks(text: str) -> dict[str, Any]:
    """What is defined after all Python blocks of `text`, one after another in one namespace."""
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in PYTHON.findall(text):
        exec(compile(block, str(PAGE), "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    torch.manual_seed(0)
    return run_blocks(PLAIN)


def without_gradient(module: nn.Module) -> set[str]:
    return {name for name, each in module.named_parameters() if each.grad is None or not torch.count_nonzero(each.grad)}


# ---- the page


def test_every_python_block_of_the_page_is_run() -> None:
    assert len(PYTHON.findall(PLAIN)) >= 4
    assert len(PYTHON.findall(HUGGING_FACE)) >= 2
    assert PAGE.read_text(encoding="utf-8").count("```python") == len(PYTHON.findall(PLAIN + HUGGING_FACE))


def test_the_pages_trunk_trains(page: dict[str, Any]) -> None:
    trunk = page["trunk"]
    dead = {f"residual.{name}" for name in trunk.residual.dead_parameters()}
    assert without_gradient(trunk) >= dead
    frozen = {name for name, each in trunk.named_parameters() if not each.requires_grad}
    assert frozen == dead
    assert dead == {"residual.sites.0.query", "residual.sites.0.key_gain"}


def test_the_pages_optimiser_has_every_parameter_once(page: dict[str, Any]) -> None:
    groups = page["optimizer"].param_groups
    held = [id(each) for group in groups for each in group["params"]]
    assert sorted(held) == sorted(map(id, page["trunk"].parameters()))
    own = {id(each) for each in page["trunk"].residual.parameters()}
    assert {group["weight_decay"] for group in groups if id(group["params"][0]) in own} == {0.0}
    assert groups[0]["weight_decay"] == 0.1


def test_the_pages_hugging_face_model_runs() -> None:
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    page = run_blocks(HUGGING_FACE)
    assert page["text"].shape == (2, 24)
    first, again = page["model"].eval(), page["again"].eval()
    assert torch.equal(first(page["tokens"]).logits, again(page["tokens"]).logits)


@pytest.mark.parametrize("scheme", scheme_names())
def test_the_pages_open_loop_serves_every_scheme(page: dict[str, Any], scheme: str) -> None:
    """All sublayers and the scheme get gradients, and no token sees a later one."""
    torch.manual_seed(1)
    parts = [page["OpenAttention"](32, 4) if at % 2 == 0 else each for at, each in enumerate(page["sublayers"](2, 32))]
    trunk = page["OpenTrunk"](parts, 32, scheme, num_heads=4)
    with torch.no_grad():  # gates that start at zero hide what lies behind them
        for parameter in trunk.residual.parameters():
            parameter += 0.3 * torch.randn(parameter.shape)
    x = torch.randn(2, 6, 32)
    weights = torch.randn(2, 6, 32)
    seen = trunk(x)
    (seen * weights).sum().backward()
    unused = trunk.residual.unused_norms()
    norms = {ordinal: f"norms.{ordinal}.weight" for ordinal in range(4)} | {4: "final_norm.weight"}
    dead = {f"residual.{name}" for name in trunk.residual.dead_parameters()} | {norms[each] for each in unused}
    assert without_gradient(trunk) == dead
    later = x.clone()
    later[:, 4:] += 1.0
    torch.testing.assert_close(trunk(later)[:, :4], seen[:, :4], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(trunk(later)[:, 4:], seen[:, 4:], atol=1e-2)


@pytest.mark.parametrize("scheme", ["prenorm", "attnres-block"])
def test_the_pages_loop_compiles_without_a_graph_break(page: dict[str, Any], scheme: str) -> None:
    torch.manual_seed(2)
    trunk = page["Trunk"](page["sublayers"](2, 32), 32, scheme)
    x = torch.randn(2, 6, 32)
    compiled = torch.compile(trunk, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), trunk(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("scheme", ["prenorm", "attnres-block"])
def test_a_copy_of_the_pages_trunk_stands_alone(page: dict[str, Any], scheme: str) -> None:
    """As a running average of the weights makes it."""
    torch.manual_seed(3)
    trunk = page["Trunk"](page["sublayers"](2, 32), 32, scheme)
    x = torch.randn(2, 6, 32)
    expected = trunk(x)
    twin = copy.deepcopy(trunk)
    with torch.no_grad():
        for parameter in trunk.parameters():
            parameter.zero_()
    assert torch.equal(twin(x), expected)


# ---- against the program's own trunk


@pytest.mark.parametrize("residual", RESIDUALS.values(), ids=RESIDUALS.keys())
def test_the_loop_computes_what_our_trunk_computes(residual: dict[str, Any]) -> None:
    model = small_model(residual, stir=0.4)
    tokens, _ = tokens_and_targets()
    made = make_residual(
        residual["scheme"],
        d_model=16,
        num_sublayers=8,
        num_heads=2,
        norm_epsilon=model.config.norm_epsilon,
        **{key: value for key, value in residual.items() if key != "scheme"},
    ).double()
    made.load_state_dict(model.residual.state_dict())
    pairs = [
        pair
        for block in model.blocks
        for pair in ((block.attention_norm, block.attention), (block.feed_forward_norm, block.feed_forward))
    ]

    def called(norm: nn.Module) -> Any:
        return lambda x: norm(x)  # nothing but a function: neither gain nor epsilon to be seen

    state = made.open(model.embedding(tokens))
    for site, (_, sublayer) in zip(sites(called(norm) for norm, _ in pairs), pairs, strict=True):
        x, state = made.read(state, site)
        state = made.write(state, site, sublayer(x))
    torch.testing.assert_close(made.close(state, called(model.final_norm)), model.walk(tokens), rtol=0, atol=1e-11)


@pytest.mark.parametrize("scheme", ["attnres-block", "laurel"])
def test_first_values_are_those_of_our_models(scheme: str) -> None:
    """laurel draws some of them; another seed, other values."""
    preset = small_preset({"scheme": scheme}, **{"train.seed": 5})
    expected = build_model(preset, 31, native=False).residual.state_dict()
    made = make_residual(scheme, d_model=16, num_sublayers=8, num_heads=2, seed=5)
    assert made.state_dict().keys() == expected.keys()
    assert all(torch.equal(value, expected[name]) for name, value in made.state_dict().items())
    initialise(made, seed=6)
    same = all(torch.equal(value, expected[name]) for name, value in made.state_dict().items())
    assert same == (scheme != "laurel")


def test_first_values_are_set_again_after_to_empty() -> None:
    made = make_residual("laurel", d_model=16, num_sublayers=4, seed=3)
    expected = {name: value.clone() for name, value in made.state_dict().items()}
    with torch.no_grad():
        for parameter in made.to_empty(device="cpu").parameters():
            parameter.fill_(float("nan"))
    initialise(made, seed=3)
    assert all(torch.equal(value, expected[name]) for name, value in made.state_dict().items())


# ---- the sites


def test_sites_alternate_and_register_nothing() -> None:
    norms = nn.ModuleList(nn.RMSNorm(4) for _ in range(4))
    found = sites(norms)
    assert [(site.ordinal, site.layer, site.kind) for site in found] == [
        (0, 0, "attention"),
        (1, 0, "feed_forward"),
        (2, 1, "attention"),
        (3, 1, "feed_forward"),
    ]
    assert [site.norm for site in found] == list(norms)


@pytest.mark.parametrize(("scheme", "acts"), [("prenorm", False), ("value-residual", True), ("hybridnorm", True)])
def test_schemes_that_act_on_projections_say_so(scheme: str, acts: bool) -> None:
    assert acts_on_projections(make_residual(scheme, d_model=8, num_sublayers=4, num_heads=2)) == acts


# ---- what is wrong with a call


@pytest.mark.parametrize(
    ("scheme", "changes", "said"),
    [
        ("attnres-blok", {}, r"no residual scheme \"attnres-blok\".*Did you mean 'attnres-block'\?"),
        ("attnres-block", {"num_block": 2}, r"no key 'num_block'.*Did you mean 'num_blocks'\?"),
        ("attnres-block", {"num_blocks": "2"}, r"num_blocks = \"2\" is text"),
        ("attnres-block", {"num_blocks": 0}, r"num_blocks = 0 is out of range"),
        ("attnres-block", {"num_blocks": 9}, r"num_blocks = 9 is more than the model's 8 sublayers"),
        ("attnres-block", {"num_blocks": 2, "block_sublayers": 2}, "exclude each other"),
        ("attnres-block", {"backend": "tritn"}, r"back end \"tritn\".*Did you mean 'triton'\?"),
        ("attnres-block", {"gain": torch.ones(1)}, r"gain = .*Expected: true or false"),
        ("attnres-block", {"num_sublayers": 7}, "num_sublayers = 7 is odd"),
        ("attnres-block", {"d_model": 0}, "d_model = 0 is not positive"),
        ("attnres-block", {"num_heads": 3}, "d_model = 16 is no multiple of num_heads = 3"),
        ("value-residual", {}, "say num_heads"),
    ],
)
def test_a_wrong_call_says_what_would_be_right(scheme: str, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        make_residual(scheme, **{"d_model": 16, "num_sublayers": 8, **changes})


def test_keys_reach_the_scheme() -> None:
    made = make_residual("attnres-block", d_model=16, num_sublayers=8, num_blocks=2, gain=False, query_lr_factor=3)
    assert made.num_blocks() == 2
    assert made.own_parameters() == 9 * 16
    assert {group.learning_rate_factor for group in made.parameter_groups().values()} == {3.0}


def test_the_norm_epsilon_reaches_the_scheme() -> None:
    """Of a tiny source, ε decides the size of the key."""
    x = torch.full((1, 1, 16), 1e-4, dtype=torch.float64)

    def scale(epsilon: float) -> Tensor:
        return make_residual("attnres-full", d_model=16, num_sublayers=2, norm_epsilon=epsilon).open(x)[1]

    assert scale(0.0).item() == pytest.approx(1e4)
    assert scale(1.0).item() == pytest.approx(1.0)


# ---- the package


def test_importing_the_package_loads_no_torch() -> None:
    code = "import attnres_cli.residual, sys; dir(attnres_cli.residual); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=PAGE.parents[1], check=False).returncode == 0


def test_every_public_name_exists_and_no_other() -> None:
    assert all(getattr(library, name) is not None for name in library.__all__)
    assert set(library.__all__) <= set(dir(library))
    with pytest.raises(AttributeError, match="no attribute 'make_residul'"):
        library.make_residul  # noqa: B018
