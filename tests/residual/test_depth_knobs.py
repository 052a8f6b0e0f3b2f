"""Every knob of attention over depth against the slow loop, and what each of them promises."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from attnres_cli.errors import UserError
from attnres_cli.residual.normalisers import NORMALISERS
from tests.residual import slow_routing
from tests.residual.slow_routing import Knobs, Mixer
from tests.residual.trunk_pieces import assert_walks_as, stirred
from tests.small import KNOBS, small_model, small_preset, tokens_and_targets

FULL, BLOCKS = (1,) * 8, (3, 3, 2)
SCHEMES = {
    "full": ({"scheme": "attnres-full"}, FULL),
    "block": ({"scheme": "attnres-block", "block_sublayers": 3}, BLOCKS),
}
# Together, too: what one knob does must not hang on the others.
TOGETHER: dict[str, dict[str, Any]] = {
    "input query, low rank, heads": {"query": "input", "key_rank": 4, "depth_heads": 2, "temperature": 0.5},
    "sliced, scaled, no gain": {
        "key_rank": 6, "key_projection": "sliced", "logit_scale": "1/sqrt(d)", "gain": False, "depth_heads": 2
    },
    "window, no embedding": {"window": 2, "embedding_source": False},
    "window, raw scalars": {"window": 3, "query": "scalars", "normaliser": "raw"},
    "sigmoid, no key norm, sum at the end": {"normaliser": "sigmoid", "key_norm": False, "final_mix": False},
    "scaled, fused": {"logit_scale": "1/sqrt(d)", "temperature": 3.0, "embedding_source": False},
}  # fmt: skip


def knobs_of(keys: dict[str, Any]) -> Knobs:
    known = {each.name for each in fields(Knobs)}
    return Knobs(**{key: value for key, value in keys.items() if key in known})


@torch.no_grad()
@pytest.mark.parametrize("keys", [*KNOBS.values(), *TOGETHER.values()], ids=[*KNOBS, *TOGETHER])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_against_the_slow_loop(scheme: str, keys: dict[str, Any]) -> None:
    residual, sizes = SCHEMES[scheme]
    # Exactly: with one source a weight that is not 1 is a factor, which a norm takes out but for its epsilon.
    model, at, tokens = stirred({**residual, **keys}, **{"model.norm_epsilon": 0.0})
    mixer = Mixer(knobs_of(keys), dict(model.residual.named_parameters()), at.epsilon)
    assert_walks_as(model, tokens, slow_routing.walk(at, mixer, sizes))


@torch.no_grad()
@pytest.mark.parametrize("keys", KNOBS.values(), ids=KNOBS.keys())
def test_every_knob_changes_the_graph(keys: dict[str, Any]) -> None:
    """With the same own parameters where both have them, the outcome is another; a control changes what is trained."""
    plain, at, tokens = stirred({"scheme": "attnres-full"})
    model, _, _ = stirred({"scheme": "attnres-full", **keys})
    if keys.get("train_queries") is False:
        assert {p.requires_grad for p in model.residual.parameters()} == {False}
        assert {p.requires_grad for p in plain.residual.parameters()} == {True}
    elif "query_lr_factor" in keys:
        factors = {g.learning_rate_factor for g in model.residual.parameter_groups().values()}
        assert factors == {keys["query_lr_factor"]}
    elif "query_init_std" in keys:
        first = small_model({"scheme": "attnres-full", **keys}).residual.get_parameter("sites.3.query")
        assert 0.3 < float(first.std()) / keys["query_init_std"] < 2
    else:
        shared = plain.residual.state_dict()
        own = model.residual.state_dict()
        model.residual.load_state_dict(
            {n: shared[n] if n in shared and shared[n].shape == t.shape else t for n, t in own.items()}
        )
        assert (model.walk(tokens) - plain.walk(tokens)).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("keys", KNOBS.values(), ids=KNOBS.keys())
def test_what_equals_the_baseline_at_first(keys: dict[str, Any]) -> None:
    """At zero queries every kind of weight is the same for all sources, and the norm takes the factor out; a window or
    queries that are not zero make another model, and the scheme says so."""
    model = small_model({"scheme": "attnres-full", **keys}, **{"model.norm_epsilon": 0.0})
    tokens, _ = tokens_and_targets()
    apart = (model(tokens) - small_model(**{"model.norm_epsilon": 0.0})(tokens)).abs().max()
    if model.residual.equals_at_initialisation is None:
        assert apart > 1e-4
    else:
        assert apart < 1e-10


@pytest.mark.parametrize("keys", KNOBS.values(), ids=KNOBS.keys())
def test_only_the_paper_itself_calls_itself_plain(keys: dict[str, Any]) -> None:
    assert small_model({"scheme": "attnres-full"}).residual.plain
    training_only = {"train_queries", "query_lr_factor", "query_init_std", "gain"}
    assert small_model({"scheme": "attnres-full", **keys}).residual.plain == (keys.keys() <= training_only)


@pytest.mark.parametrize("name", sorted(NORMALISERS))
def test_normalisers(name: str) -> None:
    generator = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(7, 5, 2, generator=generator, dtype=torch.float64)
    logits.requires_grad_()
    weights = NORMALISERS[name](logits)
    expected = slow_routing.normalise(list(logits.detach()), name)
    torch.testing.assert_close(weights.detach(), torch.stack(expected), rtol=1e-12, atol=1e-13)
    assert torch.autograd.gradcheck(NORMALISERS[name], (logits,))
    if name in ("softmax", "normalised-sigmoid", "sparsemax"):
        torch.testing.assert_close(weights.sum(0), torch.ones(5, 2, dtype=torch.float64))


@pytest.mark.parametrize("name", sorted(set(NORMALISERS) - {"raw"}))
def test_normalisers_stand_large_logits(name: str) -> None:
    logits = torch.tensor([[-1e4], [0.0], [-2e4]])
    weights = NORMALISERS[name](logits - 5e3)
    assert torch.isfinite(weights).all()
    if name in ("softmax", "sparsemax", "normalised-sigmoid"):
        torch.testing.assert_close(weights, torch.tensor([[0.0], [1.0], [0.0]]))


def test_sparsemax_leaves_sources_out() -> None:
    weights = NORMALISERS["sparsemax"](torch.tensor([0.0, 3.0, 2.5, -1.0]))
    torch.testing.assert_close(weights, torch.tensor([0.0, 0.75, 0.25, 0.0]))


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"normaliser": "softmax-1"}, "it would change nothing"),
        ({"normaliser": "raw"}, "is for learned numbers only"),
        ({"window": 2, "final_mix": False}, "the sum of all sources is not kept"),
        ({"key_rank": 17}, "key_rank = 17 is more than d_model = 16"),
        ({"key_rank": 16, "key_projection": "sliced"}, "are all of them: key_rank would change nothing"),
        ({"key_rank": 6, "depth_heads": 4}, "key_rank = 6 does not divide into depth_heads = 4 parts"),
        ({"depth_heads": 3}, "d_model = 16 does not divide into depth_heads = 3 parts"),
        ({"key_norm": False, "gain": True}, "gain does nothing here"),
        ({"query": "scalars", "gain": True}, "gain does nothing here"),
        ({"query": "scalars", "key_rank": 4}, "key_rank does nothing here"),
        ({"query": "scalars", "temperature": 2.0}, "temperature does nothing here"),
        ({"key_projection": "sliced"}, "key_projection does nothing here"),
        ({"train_queries": False, "query_lr_factor": 2.0}, "query_lr_factor does nothing here"),
        ({"depth_heads": 0}, "depth_heads"),
        ({"window": 0}, "window"),
        ({"temperature": 0.0}, "temperature"),
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError) as caught:
        small_preset({"scheme": "attnres-full", **keys})
    assert complaint in str(caught.value)


@torch.no_grad()
def test_one_head_cannot_tell_raw_from_normalised_gates() -> None:
    """A factor per token is taken out by the norm that follows: why softmax-1 is refused with one head, and why both
    sigmoids are one model there. With heads the factor is one per head, and stays."""
    for heads, same in ((1, True), (4, False)):
        closed = []
        for normaliser in ("sigmoid", "normalised-sigmoid"):
            keys = {"scheme": "attnres-full", "normaliser": normaliser, "depth_heads": heads}
            model, _, tokens = stirred(keys, **{"model.norm_epsilon": 0.0})
            closed.append(model.walk(tokens))
        assert ((closed[0] - closed[1]).abs().max() < 1e-11) == same


@torch.no_grad()
def test_a_window_keeps_the_embedding_and_the_newest() -> None:
    model = small_model({"scheme": "attnres-full", "window": 2})
    assert model.residual.source_names(6) == ("embedding", "attention 2", "feed_forward 2")
    assert model.residual.source_names(1) == ("embedding", "attention 0")


# A scheme with its number of sources beside the embedding, of 8 sublayers.
WINDOWED: dict[str, tuple[dict[str, Any], int]] = {
    "full": ({"scheme": "attnres-full"}, 8),
    "full, embedding no source": ({"scheme": "attnres-full", "embedding_source": False}, 8),
    "block": ({"scheme": "attnres-block", "block_sublayers": 3}, 3),
    "block, embedding no source": ({"scheme": "attnres-block", "block_sublayers": 3, "embedding_source": False}, 3),
}


@torch.no_grad()
@pytest.mark.parametrize(("residual", "sources"), WINDOWED.values(), ids=WINDOWED.keys())
def test_a_window_that_leaves_nothing_out_is_none_and_says_so(residual: dict[str, Any], sources: int) -> None:
    exact = {"model.norm_epsilon": 0.0}
    plain, _, tokens = stirred(residual)
    for window in (sources - 1, sources, 40):
        keys = {**residual, "window": window}
        changed = float((stirred(keys)[0].walk(tokens) - plain.walk(tokens)).abs().max())
        first = float((small_model(keys, **exact).walk(tokens) - small_model(**exact).walk(tokens)).abs().max())
        claimed, notes = small_model(keys).residual.equals_at_initialisation, small_preset(keys).notes
        if window < sources:
            assert (claimed, notes) == (None, ())
            assert min(changed, first) > 1e-4
        else:
            assert claimed == plain.residual.equals_at_initialisation == "prenorm"
            made = f"the model's 8 sublayers make {sources} sources"
            assert notes == (f"residual.window = {window} leaves nothing out: {made}",)
            assert changed == 0.0
            assert first < 1e-12


def test_blocks_that_change_nothing_are_noted() -> None:
    """A size beyond the depth is the size of the depth; a block of one sublayer has no halves."""
    longer = small_preset({"scheme": "attnres-block", "block_sublayers": 9})
    said = "residual.block_sublayers = 9 is more than the model's 8 sublayers: one block, the same model as with 8"
    assert longer.notes == (said,)
    assert longer.replace({"residual.block_sublayers": 8}).notes == ()
    assert longer.replace({"model.transformer_blocks": 5}).notes == ()
    detail = "residual.detail does nothing: every block is one sublayer"
    for keys in ({}, {"num_blocks": 8}, {"block_sublayers": 1}, {"detail": "duplicate"}):
        (note,) = small_preset({"scheme": "haares", **keys}).notes
        assert note.startswith(detail)
    assert small_preset({"scheme": "haares", "num_blocks": 7}).notes == ()


def test_an_overlay_of_the_paper_on_a_shallow_model_is_noted_and_usable(tmp_path: Path) -> None:
    """cpu-tiny has 4 sublayers."""
    from attnres_cli.preset.reading import check_file, load_preset

    told = {name: load_preset("cpu-tiny", overlays=[f"paper-{name}"]).notes for name in ("full-window-8", "block-8")}
    assert told["full-window-8"] == ("residual.window = 8 leaves nothing out: the model's 4 sublayers make 4 sources",)
    assert told["block-8"][0].startswith("residual.block_sublayers = 8 is more than the model's 4 sublayers")
    assert load_preset("cpu-deep", overlays=["paper-full-window-8"]).notes == ()
    own = tmp_path / "own.toml"
    own.write_text('extends = "cpu-tiny"\n[residual]\nscheme = "attnres-full"\nwindow = 8\n')
    assert check_file(own).notes == told["full-window-8"]
    assert check_file("paper-full-window-8").notes == ()  # by itself it knows no model


@torch.no_grad()
def test_depth_weights_are_those_that_mix() -> None:
    model, at, tokens = stirred({"scheme": "attnres-full", "depth_heads": 2, "normaliser": "sparsemax"})
    states = []

    class Keep:
        def sublayer(self, site: Any, before: Any, x: Any, output: Any, after: Any) -> None:
            states.append(before)

        def close(self, state: Any, output: Any) -> None:
            states.append(state)

    model.walk(tokens, Keep())
    mixer = Mixer(Knobs(depth_heads=2, normaliser="sparsemax"), dict(model.residual.named_parameters()), at.epsilon)
    for ordinal in range(1, 9):
        named = model.residual.depth_weights(states[ordinal], ordinal)
        assert named is not None
        heads = mixer.weights(states[ordinal][0::2], slow_routing.site_name(ordinal, 8))
        for source, weight in enumerate(named[1]):
            torch.testing.assert_close(weight, (heads[0][source] + heads[1][source]) / 2, rtol=1e-11, atol=1e-12)


def test_parameter_counts() -> None:
    """d = 16, L = 8: nine sites."""
    counted = {
        "attnres-full": 9 * 2 * 16,
        "no gain": 9 * 16,
        "input query": 9 * (16 * 16 + 16),
        "raw scalars": sum(range(1, 10)),
        "2 heads of scalars": 2 * sum(range(1, 10)),
        "projected keys": 9 * 2 * 4 + 4 * 16,
        "sliced keys": 9 * 2 * 4,
        "no final mix": 8 * 2 * 16,
    }
    keys: dict[str, dict[str, Any]] = {
        "attnres-full": {},
        "no gain": {"gain": False},
        "input query": {"query": "input"},
        "raw scalars": {"query": "scalars", "normaliser": "raw"},
        "2 heads of scalars": {"query": "scalars", "depth_heads": 2},
        "projected keys": {"key_rank": 4},
        "sliced keys": {"key_rank": 4, "key_projection": "sliced"},
        "no final mix": {"final_mix": False},
    }
    for name, count in counted.items():
        assert small_model({"scheme": "attnres-full", **keys[name]}).residual.own_parameters() == count, name


def test_frozen_queries_stay_where_they_are() -> None:
    """The controls that separate rescaling from selection: training moves everything but them."""
    import numpy as np

    from attnres_cli.train.optimisers import Optimiser
    from attnres_cli.train.step import take_step

    for std in (0.0, 0.5):
        residual = {"scheme": "attnres-full", "train_queries": False, "query_init_std": std}
        preset, model = small_preset(residual), small_model(residual, dtype=torch.float32)
        before = {name: p.detach().clone() for name, p in model.named_parameters()}
        optimiser = Optimiser(model, preset)
        inputs, targets = np.random.default_rng(1).integers(0, 31, (2, 4, 12))
        take_step(model, model.loss, optimiser, preset, 3, inputs, targets)
        moved = {name for name, p in model.named_parameters() if not torch.equal(p, before[name])}
        assert moved == {name for name in before if not name.startswith("residual.")}
        assert bool(before["residual.sites.3.query"].any()) == (std > 0)
