"""The checks of `attnres verify` are checked: every way of getting a scheme wrong must fail the check that is for it.

Each mutant changes one thing in the code that is verified; the checks themselves share nothing with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from attnres_cli import discovery
from attnres_cli.model.cache import LayerCache
from attnres_cli.model.mixers import attention
from attnres_cli.residual import block_sums, depth_attention, torch_kernels
from attnres_cli.residual.depth_attention import DepthAttention
from attnres_cli.residual.depth_query import DepthQuery
from attnres_cli.residual.fused import DepthPass, _Tape
from attnres_cli.residual.ops import cpu, reference
from attnres_cli.residual.ops import torch as torch_op
from attnres_cli.residual.protocol import Cost, Site, State
from attnres_cli.residual.schemes import attnres_block
from attnres_cli.verify.checks import oracle
from attnres_cli.verify.finding import Finding
from attnres_cli.verify.running import CHECKS
from attnres_cli.verify.subjects import Subject, default_subjects

Patch = pytest.MonkeyPatch
BASELINE, FULL, *BLOCKS = default_subjects()
SUBJECTS = (BASELINE, FULL, BLOCKS[-1])


def failures(check: str, subjects: Sequence[Subject] = SUBJECTS) -> set[str]:
    """Aspects that fail."""
    found: list[Finding] = list(discovery.load(CHECKS, check, what="check").check(subjects))
    assert found
    assert all(finding.detail for finding in found if finding.status in ("fails", "does not apply"))
    return {finding.aspect for finding in found if finding.status == "fails"}


@pytest.mark.parametrize("check", discovery.names(CHECKS))
def test_the_unchanged_code_passes(check: str) -> None:
    assert failures(check) == set()


def stepwise(patch: Patch) -> None:
    """The loop that is taken step by step is what most mutants change."""
    patch.setattr(DepthAttention, "fused_pass", lambda self, embedding: None)


def no_key_norm(patch: Patch) -> None:
    stepwise(patch)
    for op in (torch_op, reference, cpu):
        patch.setattr(op, "inverse_rms", lambda value, epsilon: torch.ones_like(value[..., 0]))


def scaled_logits(patch: Patch) -> None:
    stepwise(patch)
    folded = DepthQuery.folded
    patch.setattr(DepthQuery, "folded", lambda self: folded(self) / self.query.shape[0] ** 0.5)


def scaled_in_the_fused_pass(patch: Patch) -> None:
    patch.setattr(depth_attention, "DepthPass", lambda k, x, queries, *rest: DepthPass(k, x, queries / 4, *rest))


def query_of_the_site_before(patch: Patch) -> None:
    stepwise(patch)
    query = DepthAttention._query
    patch.setattr(DepthAttention, "_query", lambda self, ordinal: query(self, max(ordinal - 1, 0)))


def boundary_late(patch: Patch) -> None:
    sizes_of = block_sums.block_sizes

    def late(*args: Any) -> tuple[int, ...]:
        first, second, *rest = sizes_of(*args)
        return first + 1, second - 1, *rest

    patch.setattr(block_sums, "block_sizes", late)


def cumulative_blocks(patch: Patch) -> None:
    def write(self: Any, state: State, site: Site, output: Tensor) -> State:
        if not self._joins[site.ordinal]:
            return state + self._born(output + (state[-2] if site.ordinal else 0))
        return state[:-2] + self._born(state[-2] + output)

    stepwise(patch)
    patch.setattr(attnres_block.Scheme, "write", write)


def final_mix_skipped(patch: Patch) -> None:
    stepwise(patch)
    patch.setattr(DepthAttention, "close", lambda self, state, final_norm: final_norm(state[-2]))


def a_source_twice(patch: Patch) -> None:
    """A block's first sublayer writes the sum of the block before once more."""

    def write(self: Any, state: State, site: Site, output: Tensor) -> State:
        if not self._joins[site.ordinal]:
            return state + self._born(state[-2] if site.ordinal == 3 else output)
        return state[:-2] + self._born(state[-2] + output)

    stepwise(patch)
    patch.setattr(attnres_block.Scheme, "write", write)


def random_queries(patch: Patch) -> None:
    def initialise(self: DepthAttention, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        parameter.fill_(1.0) if name.endswith("key_gain") else parameter.normal_(0, 0.02)

    patch.setattr(DepthAttention, "initialise", initialise)


def gains_of_two(patch: Patch) -> None:
    def initialise(self: DepthAttention, name: str, parameter: Tensor, generator: torch.Generator) -> None:
        parameter.fill_(2.0 if name.endswith("key_gain") else 0.0)

    patch.setattr(DepthAttention, "initialise", initialise)


def detached_sources(patch: Patch) -> None:
    stepwise(patch)
    born = DepthAttention._born
    patch.setattr(DepthAttention, "_born", lambda self, value: born(self, value.detach()))


def detached_query(patch: Patch) -> None:
    stepwise(patch)
    folded = DepthQuery.folded
    patch.setattr(DepthQuery, "folded", lambda self: folded(self).detach())


def nothing_is_dead(patch: Patch) -> None:
    patch.setattr(DepthAttention, "dead_parameters", lambda self: {})


def all_gains_are_dead(patch: Patch) -> None:
    dead = DepthAttention.dead_parameters
    more = {"output.key_gain": "so it says"}
    patch.setattr(DepthAttention, "dead_parameters", lambda self: dead(self) | more)


def sees_the_future(patch: Patch) -> None:
    """The newest source is mixed over tokens before it is a source."""
    stepwise(patch)
    born = DepthAttention._born
    patch.setattr(DepthAttention, "_born", lambda self, value: born(self, value + 1e-6 * value.mean(1, keepdim=True)))


def deaf(patch: Patch) -> None:
    """What the head sees does not depend on the tokens."""
    stepwise(patch)
    patch.setattr(DepthAttention, "close", lambda self, state, final_norm: final_norm(torch.ones_like(state[0])))


def keeps_only_part_of_the_cache(patch: Patch) -> None:
    extend = LayerCache.extend

    def forgetful(self: LayerCache, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = extend(self, keys, values)
        return keys, torch.cat([torch.zeros_like(values[:, :, :1]), values[:, :, 1:]], 2)

    patch.setattr(LayerCache, "extend", forgetful)


def a_tensor_too_many(patch: Patch) -> None:
    stepwise(patch)
    spec = DepthAttention.state_spec
    patch.setattr(DepthAttention, "state_spec", lambda self, ordinal: (*spec(self, ordinal), "another"))


def costs_nothing(patch: Patch) -> None:
    patch.setattr(DepthAttention, "cost", lambda self: Cost(0, 0.0, 1.0))


def hidden_weight(patch: Patch) -> None:
    """Something random that no state dict holds."""
    stepwise(patch)
    mixed = DepthAttention._mixed
    built = DepthAttention.__init__

    def init(self: Any, *args: Any) -> None:
        built(self, *args)
        self._hidden = random.random()

    patch.setattr(DepthAttention, "__init__", init)
    patch.setattr(DepthAttention, "_mixed", lambda self, state, ordinal: mixed(self, state, ordinal) + self._hidden)


def looked_ahead_too_far(patch: Patch) -> None:
    looked = _Tape._looked_ahead

    def further(self: _Tape, ordinal: int) -> bool:
        found = looked(self, ordinal)
        if found and ordinal == self._ahead.first:
            self._ahead.sources += 1
        return found

    patch.setattr(_Tape, "_looked_ahead", further)


def another_query_ahead(patch: Patch) -> None:
    look_ahead = cpu.CppKernels.look_ahead
    patch.setattr(cpu.CppKernels, "look_ahead", lambda self, v, s, queries: look_ahead(self, v, s, queries * 1.01))


def no_carry(patch: Patch) -> None:
    gather = _Tape._gather
    patch.setattr(
        _Tape, "_gather", lambda self, sources, slots, heard, carry: gather(self, sources, slots, heard, None)
    )


def logits_in_bfloat16(patch: Patch) -> None:
    weights = torch_op.weights

    def rounded(values: Sequence[Tensor], scales: Sequence[Tensor], query: Tensor) -> Tensor:
        return weights([value.bfloat16().to(value.dtype) for value in values], scales, query)

    patch.setattr(torch_op, "weights", rounded)


def kernels_in_bfloat16(patch: Patch) -> None:
    inverse = torch_kernels._inverse_rms
    patch.setattr(torch_kernels, "_inverse_rms", lambda x, epsilon: inverse(x, epsilon).bfloat16().to(x.dtype))


def no_gradient_along(patch: Patch) -> None:
    """The gradient of a source forgets that its key is normalised."""
    gathered = torch_kernels.TorchKernels._gathered

    def without(self: Any, value: Tensor, scale: Tensor, consumers: Any) -> tuple[Tensor, Tensor]:
        grad, grad_query = gathered(self, value, scale, consumers)
        return grad + 1e-3 * value, grad_query

    patch.setattr(torch_kernels.TorchKernels, "_gathered", without)


def anti_causal_attention(patch: Patch) -> None:
    causal = attention.causal_attention
    patch.setattr(attention, "causal_attention", lambda q, k, v: causal(q, k, v) + 1e-6 * v.mean(2, keepdim=True))


# What is wrong shows in the first steps; that what is right stays within rounding is tried over all of them, above.
FEW_STEPS = 3

MUTANTS: list[tuple[Callable[[Patch], None], str, set[str]]] = [
    (random_queries, "oracle", {"logits at step 0", f"losses of {FEW_STEPS} steps, queries frozen"}),
    (final_mix_skipped, "oracle", {"logits at step 0", f"weights after {FEW_STEPS} steps"}),
    (detached_sources, "oracle", {"gradients at step 0", f"losses of {FEW_STEPS} steps, queries frozen"}),
    (no_key_norm, "equations", {"inputs of every sublayer", "weights of every site", "output, step by step"}),
    (scaled_logits, "equations", {"inputs of every sublayer", "weights of every site", "output, step by step"}),
    (scaled_in_the_fused_pass, "equations", {"output, fused"}),
    (query_of_the_site_before, "equations", {"inputs of every sublayer", "weights of every site"}),
    (boundary_late, "equations", {"inputs of every sublayer", "weights of every site", "output, fused"}),
    (cumulative_blocks, "equations", {"inputs of every sublayer"}),
    (final_mix_skipped, "equations", {"output, step by step", "output, fused"}),
    (boundary_late, "sources", {"sources per sublayer"}),
    (cumulative_blocks, "sources", {"sources sum to the plain stream"}),
    (a_source_twice, "sources", {"no source twice, none empty", "sources sum to the plain stream"}),
    (random_queries, "initialisation", {"largest query"}),
    (gains_of_two, "initialisation", {"key gains, distance from 1"}),
    (detached_query, "gradients", {"every parameter gets one"}),
    (detached_sources, "gradients", {"every parameter gets one"}),
    (nothing_is_dead, "gradients", {"every parameter gets one"}),
    (all_gains_are_dead, "gradients", {"provably dead ones get none"}),
    (sees_the_future, "causality", {"tokens before a changed one"}),
    (anti_causal_attention, "causality", {"tokens before a changed one"}),
    (deaf, "causality", {"the changed token and later ones do change"}),
    (keeps_only_part_of_the_cache, "decoding", {"token by token", "a prompt, then the rest"}),
    (sees_the_future, "decoding", {"token by token", "a prompt, then the rest"}),
    (a_tensor_too_many, "state", {"tensors as declared"}),
    (costs_nothing, "state", {"elements per token as declared"}),
    (hidden_weight, "state", {"logits after saving and loading"}),
    (looked_ahead_too_far, "two-phase", {"fused pass by cpu"}),
    (another_query_ahead, "two-phase", {"two-phase against direct", "fused pass by cpu"}),
    (no_carry, "two-phase", {"its gradients by cpu", "its gradients by torch"}),
    (logits_in_bfloat16, "backends", {"outputs and weights, float64", "outputs and weights, float32"}),
    (kernels_in_bfloat16, "backends", {"outputs and weights, float64", "outputs and weights, float32"}),
    (no_gradient_along, "backends", {"gradients, float64", "gradients, float32"}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mutate", "check", "aspects"), MUTANTS, ids=[f"{mutate.__name__}-{check}" for mutate, check, _ in MUTANTS]
)
def test_a_wrong_implementation_fails(
    mutate: Callable[[Patch], None], check: str, aspects: set[str], monkeypatch: Patch
) -> None:
    if check == "two-phase" and cpu.unusable(torch.device("cpu")) is not None:
        pytest.skip("only the C++ kernels work in two phases, and they cannot be built here")
    monkeypatch.setattr(oracle, "STEPS", FEW_STEPS)
    mutate(monkeypatch)
    assert aspects <= failures(check)


def test_every_check_is_shown_to_fail() -> None:
    assert {check for _, check, _ in MUTANTS} == set(discovery.names(CHECKS))
