"""Sublayers removed, sources masked, transformer blocks swapped: against Eq. 1–6 with the same thing missing, written
out by hand, and over every scheme."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.alteration import UNALTERED, Alteration
from attnres_cli.residual.protocol import Site, State, SublayerInput
from tests.residual import slow_loop
from tests.residual.slow_routing import Knobs, Mixer, site_name
from tests.residual.test_depth_attention import pieces
from tests.residual.trunk_pieces import stirred
from tests.shared_models import shared_model
from tests.small import EVERY, KNOBS, VOCAB_SIZE, small_model, tokens_and_targets

every_scheme = pytest.mark.parametrize("residual", EVERY.values(), ids=EVERY.keys())
CLOSE = {"rtol": 1e-11, "atol": 1e-11}
# Named sources, oldest first.
Sources = list[tuple[str, Tensor]]


def without(*ordinals: int) -> Alteration:
    return Alteration(removed=frozenset(ordinals))


class Recorder:
    """The state before every sublayer that is there and before the output; names and weights of what a site mixes."""

    def __init__(self, model: LanguageModel) -> None:
        self.residual = model.residual
        self.states: dict[int, State] = {}
        self.weights: dict[int, tuple[tuple[str, ...], Tensor]] = {}

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None:
        self._record(before, site.ordinal)

    def close(self, state: State, output: Tensor) -> None:
        self._record(state, self.residual.geometry.num_sublayers)

    def _record(self, state: State, ordinal: int) -> None:
        self.states[ordinal] = state
        found = self.residual.depth_weights(state, ordinal)
        if found is not None:
            self.weights[ordinal] = found


def recorded(model: LanguageModel, tokens: Tensor) -> tuple[Tensor, Recorder]:
    recorder = Recorder(model)
    return model.walk(tokens, recorder), recorder


# ---- against the equations


class ByHand:
    """The walk through depth with sublayers missing and sources masked, over plain lists."""

    def __init__(self, sizes: Sequence[int], alteration: Alteration, labels: Sequence[str]) -> None:
        """labels: of the source that each block of `sizes` sublayers makes."""
        self.sizes, self.alteration, self.labels = sizes, alteration, labels

    def walk(self, embedding: Tensor, f: Sequence[Any], mix: Any) -> Tensor:
        """f[l](h): sublayers with their norm; mix(sources, names, site): a site's mixture."""
        finished: Sources = [("embedding", embedding)]
        ordinal = 0
        for size, label in zip(self.sizes, self.labels, strict=True):
            partial: Sources = []
            for _ in range(size):
                if ordinal not in self.alteration.removed:
                    y = f[ordinal](self._mixed([*finished, *partial], ordinal, mix))
                    partial = [(label, partial[0][1] + y if partial else y)]
                ordinal += 1
            finished += partial
        return self._mixed(finished, ordinal, mix)

    def _mixed(self, sources: Sources, site: int, mix: Any) -> Tensor:
        kept = [each for each in sources if (site, each[0]) not in self.alteration.masked] or sources
        return mix([value for _, value in kept], [name for name, _ in kept], site)


def labels_of(sizes: Sequence[int], *, full: bool) -> list[str]:
    if full:
        return [f"{('attention', 'feed_forward')[i % 2]} {i // 2}" for i in range(len(sizes))]
    return [f"block {n + 1}" for n in range(len(sizes))]


REMOVED = [(2, 3), (0, 1), (6, 7), (0,), (5,), (1, 2, 3, 4, 5), tuple(range(8))]
SPLITS = [
    ({"scheme": "attnres-full"}, (1,) * 8),
    ({"scheme": "attnres-block", "block_sublayers": 2}, (2,) * 4),
    ({"scheme": "attnres-block", "block_sublayers": 3}, (3, 3, 2)),
    ({"scheme": "attnres-block", "num_blocks": 1}, (8,)),
]


def by_equations(model: LanguageModel, sizes: Sequence[int], alteration: Alteration, tokens: Tensor) -> Tensor:
    f, queries, gains = pieces(model)

    def mix(sources: list[Tensor], names: list[str], site: int) -> Tensor:
        return slow_loop.depth_attention(sources, queries[site], gains[site], model.config.norm_epsilon)[0]

    labels = labels_of(sizes, full=len(sizes) == 8)
    return model.final_norm(ByHand(sizes, alteration, labels).walk(model.embedding(tokens), f, mix))


@torch.no_grad()
@pytest.mark.parametrize("removed", REMOVED, ids=str)
@pytest.mark.parametrize(("residual", "sizes"), SPLITS, ids=str)
def test_equations_without_some_sublayers(residual: dict[str, Any], sizes: tuple[int, ...], removed: Any) -> None:
    model = small_model(residual, stir=0.7)
    tokens = tokens_and_targets(1, 6)[0]
    expected = by_equations(model, sizes, without(*removed), tokens)
    torch.testing.assert_close(model.altered(without(*removed)).walk(tokens), expected, **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("removed", REMOVED, ids=str)
def test_the_baseline_without_some_sublayers(removed: tuple[int, ...]) -> None:
    """h ← h + f(Norm(h)) for the sublayers that are left: for those that are not, the identity."""
    model, at, tokens = stirred({"scheme": "prenorm"})
    h = at.embedding
    for ordinal in range(8):
        if ordinal not in removed:
            h = h + at.f[ordinal](at.norm[ordinal](h))
    torch.testing.assert_close(model.altered(without(*removed)).walk(tokens), at.final_norm(h), **CLOSE)


MASKED = [
    {(5, "attention 1"), (8, "attention 1")},
    {(site, "embedding") for site in range(9)},
    {(3, "feed_forward 0"), (3, "attention 1"), (8, "embedding")},
    {(2, name) for name in ("embedding", "attention 0", "feed_forward 0")},  # all that site 2 has: it keeps them
]


@torch.no_grad()
@pytest.mark.parametrize("masked", MASKED, ids=lambda masked: f"{len(masked)} at {min(masked)}")
def test_equations_with_masked_sources(masked: set[tuple[int, str]]) -> None:
    model = small_model({"scheme": "attnres-full"}, stir=0.7)
    tokens = tokens_and_targets(1, 6)[0]
    alteration = Alteration(masked=frozenset(masked))
    expected = by_equations(model, (1,) * 8, alteration, tokens)
    torch.testing.assert_close(model.altered(alteration).walk(tokens), expected, **CLOSE)


@torch.no_grad()
def test_equations_with_a_running_sum_masked_and_a_block_removed() -> None:
    """Together: the sum of block 2 is hidden while it grows, and the first sublayers of block 3 are not there."""
    model = small_model({"scheme": "attnres-block", "block_sublayers": 3}, stir=0.7)
    tokens = tokens_and_targets(1, 6)[0]
    alteration = Alteration(removed=frozenset((6,)), masked=frozenset(((4, "block 2"), (5, "block 2"), (8, "block 3"))))
    expected = by_equations(model, (3, 3, 2), alteration, tokens)
    torch.testing.assert_close(model.altered(alteration).walk(tokens), expected, **CLOSE)


class NumbersByName(Mixer):
    """As every mixer; a site's learned numbers go with the names of the sources, and a query is made of the newest
    source that there is, masked or not."""

    def __init__(self, *args: Any, with_all: dict[int, tuple[str, ...]]) -> None:
        super().__init__(*args)
        self.with_all, self.tables = with_all, dict(self.own)

    def mix(self, sources: list[Tensor], names: list[str], site: int) -> Tensor:
        place = site_name(site, 8)
        if self.knobs.query == "scalars":
            columns = [self.with_all[site].index(name) for name in names]
            self.own[f"{place}.logits"] = self.tables[f"{place}.logits"][:, columns]
        return self(sources, place)


KNOBS_BY_HAND = [
    name
    for name in KNOBS
    if name not in ("window", "embedding no source", "no final mix", "frozen queries", "query learning rate")
]


@torch.no_grad()
@pytest.mark.parametrize("name", KNOBS_BY_HAND)
def test_every_knob_without_some_sublayers(name: str) -> None:
    """What turns logits into weights is given those of the sources that are left."""
    residual = {"scheme": "attnres-block", "block_sublayers": 3, **KNOBS[name]}
    model, at, tokens = stirred(residual)
    _, whole = recorded(model, tokens)
    with_all = {site: names for site, (names, _) in whole.weights.items()}
    fields = {key: value for key, value in KNOBS[name].items() if key in Knobs.__dataclass_fields__}
    own = dict(model.residual.named_parameters())
    masked = frozenset() if name == "input query" else frozenset(((4, "embedding"), (8, "block 1")))
    alteration = Alteration(removed=frozenset((0, 4)), masked=masked)
    mixer = NumbersByName(Knobs(**fields), own, at.epsilon, with_all=with_all)
    f = [lambda h, i=i: at.f[i](at.norm[i](h)) for i in range(8)]
    expected = at.final_norm(
        ByHand((3, 3, 2), alteration, labels_of((3, 3, 2), full=False)).walk(at.embedding, f, mixer.mix)
    )
    found = model.altered(alteration).walk(tokens)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10 * float(expected.abs().max()))


@torch.no_grad()
def test_a_query_is_made_of_the_newest_source_though_it_is_masked() -> None:
    model, at, tokens = stirred({"scheme": "attnres-full", "query": "input"})
    _, whole = recorded(model, tokens)
    _, altered = recorded(model.altered(Alteration(masked=frozenset(((3, "attention 1"),)))), tokens)
    assert whole.weights[3][0] == ("embedding", "attention 0", "feed_forward 0", "attention 1")
    expected = whole.weights[3][1][:3] / whole.weights[3][1][:3].sum(0)
    assert altered.weights[3][0] == whole.weights[3][0][:3]
    torch.testing.assert_close(altered.weights[3][1], expected, **CLOSE)


@torch.no_grad()
def test_in_a_window_what_is_not_there_takes_no_place() -> None:
    """Full with the two newest sources: without attention 1 site 4 sees feed-forward 0 and 1."""
    model = small_model({"scheme": "attnres-full", "window": 2}, stir=0.7)
    altered = model.altered(without(2))
    assert model.residual.source_names(4) == ("embedding", "attention 1", "feed_forward 1")
    assert altered.residual.source_names(4) == ("embedding", "feed_forward 0", "feed_forward 1")
    _, recorder = recorded(altered, tokens_and_targets()[0])
    assert len(recorder.states[4]) == 6


@torch.no_grad()
def test_numbers_of_a_window_belong_to_places() -> None:
    model, at, tokens = stirred({"scheme": "attnres-full", "window": 2, "query": "scalars"})
    _, recorder = recorded(model.altered(without(1, 2)), tokens)
    names, weights = recorder.weights[4]
    assert names == ("embedding", "attention 0", "feed_forward 1")
    expected = torch.softmax(dict(model.residual.named_parameters())["sites.4.logits"][0], 0)
    torch.testing.assert_close(weights[:, 0, 0], expected, **CLOSE)
    names, weights = recorder.weights[3]
    assert names == ("embedding", "attention 0")
    expected = torch.softmax(dict(model.residual.named_parameters())["sites.3.logits"][0, [0, 2]], 0)
    torch.testing.assert_close(weights[:, 0, 0], expected, **CLOSE)


@torch.no_grad()
def test_an_embedding_without_a_source_of_its_own_begins_the_first_one_all_the_same() -> None:
    model, at, tokens = stirred({"scheme": "attnres-block", "block_sublayers": 3, "embedding_source": False})
    _, recorder = recorded(model.altered(without(0, 1, 2, 3)), tokens)
    assert recorder.weights[4][0] == ("embedding + block 1",)
    assert recorder.weights[5][0] == ("embedding + block 1", "block 2")
    torch.testing.assert_close(recorder.states[4][0], at.embedding, **CLOSE)


@torch.no_grad()
def test_details_of_a_block_that_has_lost_a_half() -> None:
    """(Σ first half - Σ second half) with a first half of nothing, scaled to the size of the whole."""
    model, at, tokens = stirred({"scheme": "haares", "block_sublayers": 4})
    _, recorder = recorded(model.altered(without(0, 1)), tokens)
    assert recorder.weights[4][0] == ("embedding", "detail 1", "block 1")
    detail, whole = recorder.states[4][2], recorder.states[4][4]
    torch.testing.assert_close(detail, -whole, **CLOSE)
    _, recorder = recorded(model.altered(without(0, 1, 2, 3)), tokens)
    assert recorder.weights[6][0] == ("embedding", "block 2")
    assert recorder.weights[8][0] == ("embedding", "detail 2", "block 2")


# ---- over every scheme


def stirred_model(residual: dict[str, Any], make: Callable[..., LanguageModel] = small_model) -> LanguageModel:
    return make(residual, stir=0.05 if residual.get("normaliser") == "sparsemax" else 0.3)


@torch.no_grad()
@every_scheme
def test_any_transformer_block_can_go(residual: dict[str, Any]) -> None:
    """Finite, another model, causal, the same from the whole model's states on, and free of what was removed; the
    whole model stays what it was."""
    model = stirred_model(residual)
    tokens = tokens_and_targets(1)[0].expand(2, -1).clone()
    tokens[1, 5] = (tokens[1, 5] + 1) % VOCAB_SIZE
    states, whole = model.states(tokens), recorded(model, tokens)[0]
    for block in range(4):
        twin = model.altered(without(2 * block, 2 * block + 1))
        left = twin.walk(tokens)
        assert left.isfinite().all()
        assert (left - whole).abs().max() > 1e-9
        torch.testing.assert_close(left[0, :5], left[1, :5], rtol=1e-12, atol=1e-12)
        assert (left[0, 5:] - left[1, 5:]).abs().max() > 0
        assert torch.equal(twin.resume(states[2 * block], 2 * block), left)
        kept = {name: parameter.clone() for name, parameter in model.blocks[block].named_parameters()}
        for parameter in model.blocks[block].parameters():
            parameter.add_(0.5)
        assert torch.equal(twin.walk(tokens), left), "what was removed has an effect"
        model.blocks[block].load_state_dict(kept)
    assert torch.isfinite(model.altered(without(*range(8))).walk(tokens)).all()
    assert torch.isfinite(model.altered(without(2, 5)).walk(tokens)).all()
    assert torch.equal(recorded(model, tokens)[0], whole)


@torch.no_grad()
@every_scheme
def test_nothing_altered_is_the_model_bit_for_bit(residual: dict[str, Any]) -> None:
    model = stirred_model(residual, shared_model)
    tokens, _ = tokens_and_targets(1)
    whole, recorder = recorded(model, tokens)
    twin = model.altered(Alteration())
    assert torch.equal(twin.walk(tokens), whole)
    states = model.states(tokens)
    for ordinal, state in enumerate(states):
        assert torch.equal(twin.resume(state, ordinal), whole)
    assert all(torch.equal(one, other) for one, other in zip(recorder.states[8], states[8], strict=True))


def sources_of(recorder: Recorder) -> list[str]:
    return list(dict.fromkeys(name for names, _ in recorder.weights.values() for name in names))


def alone(residual: dict[str, Any]) -> bool:
    """Weights that compete with one another, one set of them per site."""
    compete = residual.get("normaliser", "softmax") in ("softmax", "normalised-sigmoid")
    return (
        compete and "depth_heads" not in residual and residual["scheme"] not in ("attnres-multi-head", "dual-attnres")
    )


@torch.no_grad()
@every_scheme
def test_any_source_can_be_masked(residual: dict[str, Any]) -> None:
    """It is gone wherever there is another; at the first such site the rest have their old weights over their sum."""
    model = stirred_model(residual, shared_model)
    tokens = tokens_and_targets(1)[0]
    whole, recorder = recorded(model, tokens)
    if not recorder.weights:  # it chooses no sources: there is nothing that a mask could hide
        masked, _ = recorded(model.altered(Alteration(masked=frozenset({(3, "embedding")}))), tokens)
        assert torch.equal(masked, whole)
    for source in sources_of(recorder):
        sites = [site for site, (names, _) in recorder.weights.items() if source in names]
        chosen = [site for site in sites if len(recorder.weights[site][0]) > 1]
        left, after = recorded(model.altered(Alteration(masked=frozenset((site, source) for site in sites))), tokens)
        assert left.isfinite().all()
        for site, (names, _) in recorder.weights.items():
            kept = tuple(name for name in names if name != source) or names
            assert after.weights[site][0] == kept
            assert len(after.weights[site][1]) == len(kept)
        if not chosen:
            assert torch.equal(left, whole)
            continue
        if alone(residual):
            for _, weights in after.weights.values():
                torch.testing.assert_close(weights.sum(0), torch.ones_like(weights[0]), **CLOSE)
            names, weights = recorder.weights[chosen[0]]
            rest = weights[[index for index, name in enumerate(names) if name != source]]
            torch.testing.assert_close(after.weights[chosen[0]][1], rest / rest.sum(0), **CLOSE)


@torch.no_grad()
@every_scheme
def test_every_source_is_of_one_kind(residual: dict[str, Any]) -> None:
    model = shared_model(residual)
    _, recorder = recorded(model, tokens_and_targets(1, 1)[0])
    kinds = {
        model.residual.source_family(name, site) for site, (names, _) in recorder.weights.items() for name in names
    }
    assert kinds <= {None} or None not in kinds


def test_kinds_of_sources() -> None:
    def kinds(residual: dict[str, Any], ordinal: int) -> list[str | None]:
        scheme = small_model(residual).residual
        return [scheme.source_family(name, ordinal) for name in scheme.source_names(ordinal)]  # type: ignore[operator]

    early, late = ["early attention", "early feed-forward"], ["late attention", "late feed-forward"]
    assert kinds({"scheme": "attnres-full"}, 8) == ["embedding", *early * 2, *late * 2]
    blocks = {"scheme": "attnres-block", "block_sublayers": 3}
    assert kinds(blocks, 5) == ["embedding", "early sums", "running sum"]
    assert kinds(blocks, 6) == ["embedding", "early sums", "early sums"]
    assert kinds(blocks, 8) == ["embedding", "early sums", "early sums", "late sums"]
    assert kinds({**blocks, "scheme": "haares"}, 4) == ["embedding", "details", "early sums", "running sum"]


# ---- swapped transformer blocks


def exchanged(model: LanguageModel, one: int, other: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs of parameters that the two blocks exchange, by their names in the state dict."""
    own = dict(model.named_parameters())
    for name in own:
        if name.startswith(f"blocks.{one}."):
            yield own[name], own[name.replace(f"blocks.{one}.", f"blocks.{other}.")]
    for part in model.residual.belongs_to_sublayers:
        indices = {int(found[1]) for name in own if (found := re.match(rf"residual\.{part}\.(\d+)\.", name))}
        each = 2 if max(indices, default=0) > 3 else 1
        for at in range(each):
            entries = [
                {n.split(".", 3)[3]: own[n] for n in own if n.startswith(f"residual.{part}.{each * block + at}.")}
                for block in (one, other)
            ]
            shapes = [{name: tuple(p.shape) for name, p in entry.items()} for entry in entries]
            if shapes[0] == shapes[1]:
                yield from ((entries[0][name], entries[1][name]) for name in entries[0])


@torch.no_grad()
@every_scheme
def test_swapped_blocks_are_a_model_whose_parameters_were_exchanged(residual: dict[str, Any]) -> None:
    model = stirred_model(residual)
    tokens, _ = tokens_and_targets(1)
    whole = recorded(model, tokens)[0]
    twin = model.altered(Alteration(swapped=(1, 2)))
    swapped = twin.walk(tokens)
    assert (swapped - whole).abs().max() > 1e-9
    assert torch.equal(twin.resume(model.states(tokens)[2], 2), swapped)
    for one, other in exchanged(model, 1, 2):
        kept = one.clone()
        one.copy_(other)
        other.copy_(kept)
    assert torch.equal(recorded(model, tokens)[0], swapped)


@torch.no_grad()
def test_queries_go_with_their_block() -> None:
    """Full, by the equations: block 1 and 2 with norms, queries and gains at each other's place."""
    model, at, tokens = stirred({"scheme": "attnres-full"})
    f, queries, gains = pieces(model)
    order = [0, 1, 4, 5, 2, 3, 6, 7]
    expected, _ = slow_loop.full(
        at.embedding, [f[i] for i in order], [*(queries[i] for i in order), queries[8]],
        [*(gains[i] for i in order), gains[8]], at.epsilon,
    )  # fmt: skip
    found = model.altered(Alteration(swapped=(1, 2))).walk(tokens)
    torch.testing.assert_close(found, at.final_norm(expected), **CLOSE)


# ---- what a walk has in common with another


def test_the_first_difference() -> None:
    assert UNALTERED.first_difference(Alteration()) is None
    assert without(4, 5).first_difference(UNALTERED) == 4
    assert without(2, 3, 6, 7).first_difference(without(2, 3)) == 6
    assert Alteration(masked=frozenset(((8, "x"), (5, "y")))).first_difference(UNALTERED) == 5
    assert Alteration(swapped=(2, 3)).first_difference(UNALTERED) == 4
    assert Alteration(swapped=(2, 3)).first_difference(Alteration(swapped=(2, 3))) is None


@torch.no_grad()
def test_an_altered_model_decodes_as_it_reads() -> None:
    """With a key/value cache, too."""
    from attnres_cli.model.cache import KeyValueCache

    for residual in ({"scheme": "prenorm"}, {"scheme": "attnres-block", "block_sublayers": 3}, {"scheme": "lime"}):
        twin = small_model(residual, stir=0.3).altered(without(2, 3))
        tokens, _ = tokens_and_targets()
        cache = KeyValueCache.for_model(twin, 2, 12)
        parts = [twin.walk(part, cache=cache) for part in tokens.split([5, 1, 6], dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), twin.walk(tokens), rtol=1e-10, atol=1e-10)
