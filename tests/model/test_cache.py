"""Reading tokens in parts through a cache equals reading them at once."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnres_cli.model.build import geometry_of
from attnres_cli.model.cache import KeyValueCache
from attnres_cli.model.initialisation import initialise
from attnres_cli.model.mixers.attention import causal_attention
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.residual.protocol import FusedPass, Residual, Site, State, SublayerInput
from tests.shared_models import shared_model
from tests.small import EVERY, RESIDUALS, VOCAB_SIZE, small_model, small_preset, tokens_and_targets

every_scheme = pytest.mark.parametrize("residual", EVERY.values(), ids=EVERY.keys())
CONTEXT = 16
# Of SHORT tokens, for a cache that they fill.
PARTS = {"at once": [7], "one by one": [1] * 7, "1 + 3 + rest": [1, 3, 3], "a token between": [4, 1, 2]}
SHORT = 7
HEADS = {
    "a key per query head": {},
    "two query heads share a key": {"model.num_heads": 4, "model.num_kv_heads": 2},
    "all share one": {"model.num_heads": 4, "model.num_kv_heads": 1},
}
CLOSE = {"rtol": 0.0, "atol": 1e-10}


class Unmoved:
    """A watcher: nobody may run in fused form before its eyes."""

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None: ...

    def close(self, state: State, output: Tensor) -> None: ...


def read_in_parts(model: LanguageModel, tokens: Tensor, parts: list[int]) -> Tensor:
    """Logits [B, T, V] of tokens that are read part by part into one cache."""
    cache = KeyValueCache.for_model(model, len(tokens), sum(parts))
    logits = []
    for part in tokens.split(parts, dim=1):
        before = cache.length
        logits.append(model(part, cache))
        assert cache.length == before + part.shape[1]
    return torch.cat(logits, dim=1)


@torch.no_grad()
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS.keys())
@every_scheme
def test_parts_equal_the_whole(residual: dict[str, Any], heads: dict[str, int]) -> None:
    model = small_model(residual, stir=0.7, **{"model.transformer_blocks": 2}, **heads)
    tokens, _ = tokens_and_targets(5, SHORT)  # more tokens than one chunk of a kernel
    whole = model(tokens)
    for name, parts in PARTS.items():
        torch.testing.assert_close(
            read_in_parts(model, tokens, parts), whole, **CLOSE, msg=lambda m, n=name: f"{n}: {m}"
        )


@torch.no_grad()
@every_scheme
def test_parts_equal_the_whole_before_a_watchers_eyes(residual: dict[str, Any]) -> None:
    model = shared_model(residual, stir=0.7)
    tokens, _ = tokens_and_targets(2, CONTEXT)
    cache = KeyValueCache.for_model(model, 2, CONTEXT)
    parts = [model.walk(part, Unmoved(), cache=cache) for part in tokens.split([5, 1, 10], dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model.walk(tokens, Unmoved()), **CLOSE)


@torch.no_grad()
@every_scheme
def test_greedy_tokens_are_those_of_full_recomputation(residual: dict[str, Any]) -> None:
    model = shared_model(residual, stir=0.7)
    prompt, _ = tokens_and_targets(3, 3)
    cache = KeyValueCache.for_model(model, 3, SHORT)
    slow, next_tokens = prompt, prompt
    while slow.shape[1] < SHORT:
        expected = model(slow)[:, -1]
        found = model(next_tokens, cache)[:, -1]
        torch.testing.assert_close(found, expected, **CLOSE)
        next_tokens = found.argmax(-1, keepdim=True)
        assert torch.equal(next_tokens, expected.argmax(-1, keepdim=True))
        slow = torch.cat((slow, next_tokens), 1)


@torch.no_grad()
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize(("queries", "positions"), [(1, 1), (5, 5), (1, 5), (2, 5), (4, 5)])
def test_each_query_sees_all_up_to_its_own_position(queries: int, positions: int, key_heads: int) -> None:
    generator = torch.Generator().manual_seed(1)

    def drawn(heads: int, length: int) -> Tensor:
        return torch.randn(2, heads, length, 6, dtype=torch.float64, generator=generator)

    q, k, v = drawn(4, queries), drawn(key_heads, positions), drawn(key_heads, positions)
    found = causal_attention(q, k, v)
    for b in range(2):
        for head in range(4):
            keys, values = k[b, head * key_heads // 4], v[b, head * key_heads // 4]
            for query in range(queries):
                seen = positions - queries + query + 1
                weights = [math.exp(float(q[b, head, query] @ keys[s]) / math.sqrt(6)) for s in range(seen)]
                expected = sum(w / sum(weights) * values[s] for s, w in enumerate(weights))
                torch.testing.assert_close(found[b, head, query], expected, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def test_is_causal_alone_would_hide_the_cache() -> None:
    """Why `causal_attention` exists: PyTorch's triangle begins at the upper left; the first query sees key 0 only."""
    q, k = torch.randn(2, 1, 1, 3, 4, generator=torch.Generator().manual_seed(2)).unbind()
    q, held = q[:, :, :2], k
    naive = F.scaled_dot_product_attention(q, held, held, is_causal=True)
    torch.testing.assert_close(naive[:, :, 0], held[:, :, 0])
    assert (causal_attention(q, held, held) - naive).abs().max() > 1e-2


@torch.no_grad()
@pytest.mark.parametrize("length", [0, 1, 9])
def test_what_was_rewound_is_as_if_it_had_not_been_read(length: int) -> None:
    model = small_model(RESIDUALS["3 blocks"], stir=0.7)
    tokens, other = tokens_and_targets(2, CONTEXT)
    cache = KeyValueCache.for_model(model, 2, CONTEXT)
    model(other, cache)
    cache.rewind(0)
    model(torch.cat((tokens[:, :length], other[:, length:]), 1), cache)
    cache.rewind(length)
    assert cache.length == length
    torch.testing.assert_close(model(tokens[:, length:], cache), model(tokens)[:, length:], **CLOSE)


@torch.no_grad()
def test_a_short_cache_is_enough_for_few_tokens() -> None:
    model = small_model()
    tokens, _ = tokens_and_targets(1, 6)
    cache = KeyValueCache.for_model(model, 1, 6)
    torch.testing.assert_close(torch.cat([model(t, cache) for t in tokens.split(2, 1)], 1), model(tokens), **CLOSE)


@torch.no_grad()
def test_what_does_not_fit_is_refused_and_changes_nothing() -> None:
    model = small_model()
    tokens, _ = tokens_and_targets(2, CONTEXT)
    with pytest.raises(AssertionError, match="17 tokens for a context of 16"):
        KeyValueCache.for_model(model, 2, CONTEXT + 1)
    cache = KeyValueCache.for_model(model, 2, 10)
    expected = model(tokens[:, :10])
    model(tokens[:, :8], cache)
    for wrong, message in ((tokens[:, :3], "11 tokens for a cache of 10"), (tokens[:1, :1], "1 sequences for a cache")):
        with pytest.raises(AssertionError, match=message):
            model(wrong, cache)
    with pytest.raises(AssertionError, match="rewind to 9 of 8"):
        cache.rewind(9)
    torch.testing.assert_close(model(tokens[:, 8:10], cache), expected[:, 8:], **CLOSE)


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_keys_and_values_are_held_as_they_come(dtype: torch.dtype) -> None:
    layer = KeyValueCache(layers=1, batch_size=2, capacity_tokens=5).layers[0]
    keys, values = torch.randn(2, 2, 3, 4, 6, generator=torch.Generator().manual_seed(0)).to(dtype).unbind()
    for found, expected in zip(layer.extend(keys, values), (keys, values), strict=True):
        assert found.dtype == dtype
        assert torch.equal(found, expected)


def test_attention_under_autocast_reads_a_cache_in_its_own_dtype() -> None:
    """float32 weights, bfloat16 products: so are the keys and values that are held."""
    model = small_model(dtype=torch.float32)
    attention = model.blocks[0].attention
    x = torch.randn(1, 9, 16, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        cache = KeyValueCache.for_model(model, 1, CONTEXT)
        first = attention(x[:, :8], None, cache.layers[0])
        cache.length = 8
        found, expected = torch.cat((first, attention(x[:, 8:], None, cache.layers[0])), 1), attention(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected)


@torch.no_grad()
def test_decoding_compiles_without_a_graph_break_and_not_anew_for_every_token() -> None:
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    model = small_model(RESIDUALS["3 blocks"], stir=0.7, **{"model.transformer_blocks": 2})
    tokens, _ = tokens_and_targets(1, CONTEXT)
    counter = CompileCounter()
    compiled = torch.compile(model.walk, backend=counter, fullgraph=True)
    cache = KeyValueCache.for_model(model, 1, CONTEXT)
    parts = [model.walk(tokens[:, :4], cache=cache)]
    parts += [compiled(token, cache=cache) for token in tokens[:, 4:].split(1, dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), model.walk(tokens), **CLOSE)
    assert counter.frame_count <= 2  # the second time positions become symbols


@torch.no_grad()
def test_a_cache_is_gone_with_its_last_user() -> None:
    """Not when the cyclic collector comes by: until then a server would hold the keys and values of every request."""
    model = small_model()
    tokens, _ = tokens_and_targets(2, 5)
    gc.collect()
    gc.disable()
    try:
        cache = KeyValueCache.for_model(model, 2, 8)
        model.walk(tokens, cache=cache)
        gone = weakref.ref(cache.layers[0])
        del cache
        assert gone() is None
    finally:
        gc.enable()


class Projecting(Residual):
    """A plain residual that routes q, k and v apart and scales values by something of each token's own stream."""

    def open(self, embedding: Tensor) -> State:
        return (embedding,)

    def read(self, state: State, site: Site) -> tuple[SublayerInput, State]:
        x = site.norm(state[0])
        roles: Mapping[str, Tensor] = {"q": x, "k": 0.5 * x, "v": x + state[0]}
        return (roles if site.kind == "attention" else x), state

    def project(
        self, state: State, site: Site, q: Tensor, k: Tensor, v: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, State]:
        share = state[0].mean(-1).sigmoid()[:, None, :, None]  # [B, 1, T, 1]
        return q + 0.1, k, v * share, state

    def write(self, state: State, site: Site, output: Tensor) -> State:
        return (state[0] + output,)

    def close(self, state: State, final_norm: Any) -> Tensor:
        closed: Tensor = final_norm(state[0])
        return closed

    def fused_pass(self, embedding: Tensor) -> FusedPass | None:
        return None

    def stream(self, state: State) -> Tensor:
        return state[0]

    def state_spec(self, ordinal: int) -> tuple[str, ...]:
        return ("stream",)

    def cost(self) -> Any:
        raise NotImplementedError


@torch.no_grad()
@pytest.mark.parametrize("heads", HEADS.values(), ids=HEADS.keys())
def test_a_scheme_that_acts_on_q_k_and_v_keeps_doing_so(heads: dict[str, int]) -> None:
    config = small_preset(**heads).model
    geometry = geometry_of(config)
    with torch.device("meta"):
        model = LanguageModel(config, Projecting(None, geometry), VOCAB_SIZE).double()
    model.to_empty(device="cpu")
    initialise(model, 0)
    tokens, _ = tokens_and_targets(2, SHORT)
    whole = model(tokens)
    assert (whole - small_model(**heads)(tokens)).abs().max() > 1e-3
    for parts in PARTS.values():
        torch.testing.assert_close(read_in_parts(model, tokens, parts), whole, **CLOSE)
