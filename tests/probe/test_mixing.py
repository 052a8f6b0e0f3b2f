"""The depth-mixing matrix against each scheme's own equations, unrolled token by token with the gates it has there.

The unrolling keeps, beside every tensor of the walk, the weights of the embedding and of all outputs in it: c [L + 1]
per token. It starts at (1, 0, …), a sublayer's output is the unit vector of its place, and what a scheme does to its
tensors is done to the weights. The gates are recomputed from the parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.probe.probes import mixing
from attnres_cli.probe.subject import Subject
from attnres_cli.residual.registry import scheme_names
from tests.probe.walked import Walked, all_tokens, subject, walk
from tests.small import EVERY

L = 8


def unit(place: int) -> Tensor:
    return torch.eye(L + 1, dtype=torch.float64)[place]


def rms_normed(x: Tensor) -> Tensor:
    return x / (x.square().mean() + 1e-12).sqrt()


def norms_of(model: LanguageModel) -> list[Any]:
    return [norm for block in model.blocks for norm in (block.attention_norm, block.feed_forward_norm)]


def baseline(model: LanguageModel, seen: Walked, at: tuple[int, int]) -> list[Tensor]:
    return [torch.tensor([1.0] * (site + 1) + [0.0] * (L - site), dtype=torch.float64) for site in range(L + 1)]


def highway(model: LanguageModel, seen: Walked, at: tuple[int, int]) -> list[Tensor]:
    c, rows = unit(0), []
    for site, own in enumerate(model.residual.sites):
        rows.append(c)
        normed = rms_normed(seen.inputs[site][at]) * norms_of(model)[site].gain
        gate = torch.sigmoid((normed * own.weight).sum() + own.bias)
        c = (1 - gate) * c + gate * unit(site + 1)
    return [*rows, c]


def streams(model: LanguageModel, seen: Walked, at: tuple[int, int]) -> list[Tensor]:
    """Hyper-connections by the paper's products: M_{i→l} = β_iᵀ A_{i+1} … A_{l-1} α_l."""
    residual, n = model.residual, model.residual.num_streams
    reads, carries, writes = [], [], []
    for site in range(L):
        of_streams = seen.states[site][0][at]
        weights = residual.weights(of_streams[None, None], site)
        reads.append(unit(0)[:n] if weights.read is None else weights.read[0, 0])
        carries.append(torch.eye(n) if weights.carry is None else weights.carry[0, 0])
        writes.append(weights.write[0, 0])
    reads.append(torch.ones(n, dtype=torch.float64))
    rows = []
    for site in range(L + 1):
        row = torch.zeros(L + 1, dtype=torch.float64)
        for source in range(site + 1):
            held = torch.ones(n, dtype=torch.float64) if source == 0 else writes[source - 1]
            for between in range(source, site):
                held = carries[between].double() @ held
            row[source] = reads[site] @ held
        rows.append(row)
    return rows


def chosen(members: Callable[[int, str], list[int]]) -> Callable[..., list[Tensor]]:
    """AttnRes: every source's weight goes to all outputs that it sums up."""

    def rows(model: LanguageModel, seen: Walked, at: tuple[int, int]) -> list[Tensor]:
        found = []
        for site, state in enumerate([*seen.states, seen.closing]):
            names, weights = model.residual.depth_weights(state, site)
            row = torch.zeros(L + 1, dtype=torch.float64)
            for name, weight in zip(names, weights, strict=True):
                for member in members(site, name):
                    row[member] += weight[at]
            found.append(row)
        return found

    return rows


def of_blocks(*sizes: int) -> Callable[[int, str], list[int]]:
    """The outputs in each block's sum so far."""

    def members(site: int, name: str) -> list[int]:
        if name == "embedding":
            return [0]
        number = int(name.removeprefix("block "))
        first = 1 + sum(sizes[: number - 1])
        return [output for output in range(first, first + sizes[number - 1]) if output <= site]

    return members


def of_outputs(site: int, name: str) -> list[int]:
    if name == "embedding":
        return [0]
    kind, layer = name.rsplit(" ", 1)
    return [2 * int(layer) + 1 + (kind == "feed_forward")]


def denseformer(model: LanguageModel, seen: Walked, at: tuple[int, int]) -> list[Tensor]:
    outputs, rows = [unit(0)], []
    start = outputs[0]
    for block in range(L // 2):
        rows.append(start)
        running = start + unit(2 * block + 1)
        rows.append(running)
        outputs.append(running + unit(2 * block + 2))
        weights = model.residual.averages[block].weights
        start = sum((w * x for w, x in zip(weights, outputs, strict=True)), torch.zeros(L + 1))
    return [*rows, start]


def muddformer(model: LanguageModel, seen: Walked, at: tuple[int, int]) -> list[Tensor]:
    """Rows of attention are those of its query."""
    outputs, rows = [unit(0)], []
    query = start = outputs[0]
    for block in range(L // 2):
        rows.append(query)
        running = start + unit(2 * block + 1)
        rows.append(running)
        outputs.append(running + unit(2 * block + 2))
        own = model.residual.mixers[block]
        state = seen.closing if block == L // 2 - 1 else seen.states[2 * block + 2]
        hidden = torch.nn.functional.gelu(own.w1 @ rms_normed(state[block + 1][at]))
        weights = (own.w2 @ hidden).view(own.bias.shape) + own.bias
        mixed = [sum((w * x for w, x in zip(row, outputs, strict=True)), torch.zeros(L + 1)) for row in weights]
        query, start = mixed[0], mixed[-1]
    return [*rows, query]


def unet(model: LanguageModel, seen: Walked, at: tuple[int, int]) -> list[Tensor]:
    c, saved, rows = unit(0), [], []
    for block in range(L // 2):
        if block >= L // 4:
            c = c + model.residual.blocks[block].weight * saved.pop()
        rows.append(c)
        c = c + unit(2 * block + 1)
        rows.append(c)
        c = c + unit(2 * block + 2)
        if block < L // 4:
            saved.append(c)
    return [*rows, c]


def postnorm(model: LanguageModel, seen: Walked, at: tuple[int, int]) -> list[Tensor]:
    """Weights by channel, because gains are; the matrix has their mean."""
    c, rows = unit(0)[:, None].expand(L + 1, 16), []
    for site, norm in enumerate(norms_of(model)):
        rows.append(c.mean(1))
        c = c * norm.gain / (seen.inputs[site][at].square().mean() + 1e-12).sqrt()
        c = c + unit(site + 1)[:, None]
    return [*rows, c.mean(1)]


EQUATIONS: dict[str, Callable[..., list[Tensor]]] = {
    "prenorm": baseline,
    "value-residual": baseline,  # what it routes apart are attention's values
    "highway": highway,
    "hyper-connections": streams,
    "mhc": streams,
    "full": chosen(of_outputs),
    "3 blocks": chosen(of_blocks(2, 2, 4)),
    # Attention's rows are those of queries and keys, which `depth_weights` shows, too; values have others.
    "attnres-role-decoupled, blocks of 3": chosen(of_blocks(3, 3, 2)),
    "denseformer": denseformer,
    "muddformer": muddformer,
    "unet": unet,
    "postnorm": postnorm,
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_by_the_schemes_own_equations(name: str) -> None:
    seen = subject(name)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():  # gains as after training
        for norm in norms_of(seen.model):
            norm.gain += 0.3 * torch.randn(16, generator=generator, dtype=torch.float64)
        tokens, _ = all_tokens(seen)
        reference = walk(seen.model, tokens)
        places = [(b, t) for b in range(tokens.shape[0]) for t in range(tokens.shape[1])]
        per_token = torch.stack([torch.stack(EQUATIONS[name](seen.model, reference, at)) for at in places])
    found = mixing.measure(seen)
    assert found is not None
    expected = per_token.mean(0)
    assert found.arrays["matrix"].flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-8, abs=1e-9)
    deviation = per_token.std(0, correction=0).flatten().tolist()
    assert found.arrays["token_deviation"].flatten().tolist() == pytest.approx(deviation, rel=1e-5, abs=1e-6)


# They map the stream through a matrix, or rewrite it along a direction.
COUPLE_CHANNELS = {"ddl", "laurel"}


@pytest.mark.parametrize("name", sorted({*scheme_names()} - EQUATIONS.keys()))
def test_every_other_scheme_has_one_or_couples_channels(name: str) -> None:
    """A scheme that forgets to hold a gate would be taken for one without a matrix."""
    assert (mixing.measure(subject(name, sequences=2)) is None) == (name in COUPLE_CHANNELS)


@pytest.mark.parametrize("name", ["4 heads", "sparsemax", "haares, blocks of 3", "siamesenorm"])
def test_further_schemes_have_one_in_float32_too(name: str) -> None:
    """What models are trained in: rounding must not look like a scheme without a matrix."""
    seen = subject(name)
    single = Subject(seen.model.float(), seen.batches, "fp32")
    found, exact = mixing.measure(single), mixing.measure(subject(name))
    assert found is not None
    assert exact is not None
    scale = abs(exact.arrays["matrix"]).max()
    assert abs(found.arrays["matrix"] - exact.arrays["matrix"]).max() < 1e-3 * scale


def test_attention_rows_add_up_to_one_and_the_ranks_are_of_rows_scaled_so() -> None:
    found = mixing.measure(subject("full"))
    assert found is not None
    assert found.arrays["matrix"].sum(1).tolist() == pytest.approx([1.0] * (L + 1))
    plain = mixing.measure(subject("prenorm"))
    assert plain is not None
    rows = torch.tril(torch.ones(L + 1, L + 1, dtype=torch.float64)) / torch.arange(1, L + 2)[:, None]
    values = torch.linalg.svdvals(rows)
    shares = [float(value / values.sum()) for value in values]
    expected = math.exp(-sum(share * math.log(share) for share in shares))
    assert plain.summary["effective_rank"] == pytest.approx(expected)
    assert plain.summary["sources"][:3] == ["embedding", "attention 0", "feed_forward 0"]


@pytest.mark.parametrize("name", ["hyper-connections", "denseformer", "muddformer"])
def test_what_starts_as_the_baseline_has_its_matrix_at_first(name: str) -> None:
    found = mixing.measure(subject(name, stir=0.0))
    assert found is not None
    # The norm takes the size of a row away: hyper-connections add up four equal streams at the end.
    rows = found.arrays["matrix"] / found.arrays["matrix"].max(1, keepdims=True)
    assert rows.flatten().tolist() == pytest.approx(torch.tril(torch.ones(L + 1, L + 1)).flatten().tolist())


def test_nothing_is_left_behind() -> None:
    seen = subject("highway")
    before = {name: tensor.clone() for name, tensor in seen.model.state_dict().items()}
    hooks = sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in seen.model.modules())
    tokens, targets = all_tokens(seen)
    mixing.measure(seen)
    assert hooks == sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in seen.model.modules())
    assert all(torch.equal(tensor, before[name]) for name, tensor in seen.model.state_dict().items())
    assert all(parameter.grad is None for parameter in seen.model.parameters())
    # Gates are let go again: they have gradients.
    seen.model.loss(tokens, targets).backward()
    assert float(seen.model.residual.sites[3].weight.grad.abs().sum()) > 0


def test_every_configuration_of_the_equations_is_one_of_the_house() -> None:
    assert EQUATIONS.keys() <= EVERY.keys()
