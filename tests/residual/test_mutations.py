"""The checks themselves are checked: every published way of getting AttnRes wrong must fail one of them.

Each mutant changes one thing in the code under test and then runs the ordinary tests, which have to object.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch

from attnres_cli.residual.depth_attention import DepthAttention, DepthQuery
from attnres_cli.residual.fused import _Tape
from attnres_cli.residual.ops import reference
from attnres_cli.residual.ops import torch as torch_op
from attnres_cli.residual.protocol import State
from attnres_cli.residual.schemes import attnres_block
from tests.residual import test_depth_attention as mathematics
from tests.residual import test_fused as fused
from tests.residual import test_operator as operator
from tests.residual import test_oracle as oracle

Patch = pytest.MonkeyPatch


def no_key_norm(patch: Patch) -> None:
    for op in (torch_op, reference):
        patch.setattr(op, "inverse_rms", lambda value, epsilon: torch.ones_like(value[..., 0]))


def scaled_logits(patch: Patch) -> None:
    folded = DepthQuery.folded
    patch.setattr(DepthQuery, "folded", lambda self: folded(self) / self.query.shape[0] ** 0.5)


def gain_ignored(patch: Patch) -> None:
    patch.setattr(DepthQuery, "folded", lambda self: self.query * 1.0)


def boundary_late(patch: Patch) -> None:
    built = attnres_block.Scheme.__init__

    def shifted(self: attnres_block.Scheme, *args: object) -> None:
        built(self, *args)  # type: ignore[arg-type]
        firsts = {each + 1 if each else 0 for each, joins in enumerate(self._joins) if not joins}
        self._joins = tuple(each not in firsts for each in range(len(self._joins)))

    patch.setattr(attnres_block.Scheme, "__init__", shifted)


def cumulative_blocks(patch: Patch) -> None:
    """The accumulator is never reset: sources are running streams."""

    def write(self: attnres_block.Scheme, state: State, site: object, output: torch.Tensor) -> State:
        if not self._joins[site.ordinal]:  # type: ignore[attr-defined]
            return state + self._born(output + (state[-2] if site.ordinal else 0))  # type: ignore[attr-defined]
        return state[:-2] + self._born(state[-2] + output)

    patch.setattr(attnres_block.Scheme, "write", write)


def block_means(patch: Patch) -> None:
    def write(self: attnres_block.Scheme, state: State, site: object, output: torch.Tensor) -> State:
        if not self._joins[site.ordinal]:  # type: ignore[attr-defined]
            return state + self._born(output)
        return state[:-2] + self._born((state[-2] + output) / 2)

    patch.setattr(attnres_block.Scheme, "write", write)


def detached_block_sums(patch: Patch) -> None:
    born = DepthAttention._born
    patch.setattr(DepthAttention, "_born", lambda self, value: born(self, value.detach()))


def embedding_dropped(patch: Patch) -> None:
    mixed = DepthAttention._mixed
    patch.setattr(DepthAttention, "_mixed", lambda self, s, i: mixed(self, s[2:] if len(s) > 2 else s, i))


def final_mix_skipped(patch: Patch) -> None:
    patch.setattr(DepthAttention, "close", lambda self, state, final_norm: final_norm(state[-2]))


def one_query_per_transformer_block(patch: Patch) -> None:
    query = DepthAttention._query
    last = 8
    patch.setattr(DepthAttention, "_query", lambda self, i: query(self, i if i == last else i - i % 2))


def normalised_values(patch: Patch) -> None:
    for op in (torch_op, reference):
        mix = op.mix

        def over_keys(
            values: list[torch.Tensor], scales: list[torch.Tensor], query: torch.Tensor, mix: Callable = mix
        ) -> torch.Tensor:
            weights = torch_op.weights(values, scales, query)
            return sum(w.unsqueeze(-1) * v * s.unsqueeze(-1) for w, v, s in zip(weights, values, scales, strict=True))

        patch.setattr(op, "mix", over_keys)


def random_queries(patch: Patch) -> None:
    def initialise(self: DepthAttention, name: str, parameter: torch.Tensor, generator: torch.Generator) -> None:
        parameter.fill_(1.0) if name.endswith("key_gain") else parameter.normal_(0, 0.02)

    patch.setattr(DepthAttention, "initialise", initialise)


def stepwise(patch: Patch) -> None:
    """The mutants change the loop that is taken step by step; test_fused.py holds the fused one against that."""
    patch.setattr(DepthAttention, "fused_pass", lambda self, embedding: None)


def equations(patch: Patch) -> None:
    mathematics.test_full_is_equations_1_to_4(True, "torch")
    for config, sizes in mathematics.SPLITS:
        mathematics.test_block_is_equations_5_and_6(config, sizes)


def silence(patch: Patch) -> None:
    mathematics.test_silent_sublayers_leave_the_embedding_at_the_head("attnres-full")


def gradient_flow(patch: Patch) -> None:
    mathematics.test_the_embedding_gets_gradient_through_every_block()


def step_0(patch: Patch) -> None:
    oracle.test_step_0_is_the_baseline({"scheme": "attnres-full"}, True)


def gradients(patch: Patch) -> None:
    operator.test_gradients_in_float64("torch")


# ---- the fused pass, held against the loop that is taken step by step


def no_carry(patch: Patch) -> None:
    """A running sum forgets what the next sum sends back to it."""
    gather = _Tape._gather
    patch.setattr(
        _Tape, "_gather", lambda self, sources, slots, heard, carry: gather(self, sources, slots, heard, None)
    )


def one_consumer(patch: Patch) -> None:
    """A source hears its own site alone."""
    gather = _Tape._gather
    patch.setattr(_Tape, "_gather", lambda self, s, slots, heard, carry: gather(self, s, slots, heard[-1:], carry))


def sums_never_end(patch: Patch) -> None:
    """The running sum goes on over the end of its block."""
    made = _Tape.__init__

    def init(self: _Tape, kernels: object, queries: object, joins: Sequence[bool], epsilon: float) -> None:
        made(self, kernels, queries, [False, *[True] * (len(joins) - 1)], epsilon)  # type: ignore[arg-type]

    patch.setattr(_Tape, "__init__", init)


def query_of_the_site_before(patch: Patch) -> None:
    query = _Tape.query
    patch.setattr(_Tape, "query", lambda self, ordinal: query(self, max(ordinal - 1, 0)))


def looked_ahead_too_far(patch: Patch) -> None:
    """A group goes on with the sources that were finished when it began."""
    looked = _Tape._looked_ahead

    def further(self: _Tape, ordinal: int) -> bool:
        found = looked(self, ordinal)
        if found and ordinal == self._ahead.first:
            self._ahead.sources += 1
        return found

    patch.setattr(_Tape, "_looked_ahead", further)


def gathered_twice(patch: Patch) -> None:
    """Neighbours that gathered together do it again on their own."""
    gather = _Tape.gather

    def forgetful(self: _Tape, *args: object) -> torch.Tensor:
        self._gathered = {slot: (grad, 0) for slot, (grad, _) in self._gathered.items()}
        return gather(self, *args)  # type: ignore[arg-type]

    patch.setattr(_Tape, "gather", forgetful)


def fused_equals_stepwise(backend: str) -> Callable[[Patch], None]:
    def check(patch: Patch) -> None:
        for residual in ({"scheme": "attnres-block", "block_sublayers": 3}, {"scheme": "attnres-full"}):
            fused.test_equals_the_stepwise_loop(backend, residual, fused.DEEP, 1e-12)

    return check


FUSED_MUTANTS: list[tuple[Callable[[Patch], None], str]] = [
    (no_carry, "torch"),
    (one_consumer, "torch"),
    (sums_never_end, "torch"),
    (query_of_the_site_before, "torch"),
    (looked_ahead_too_far, "cpu"),
    (gathered_twice, "cpu"),
]


@pytest.mark.parametrize(("mutate", "backend"), FUSED_MUTANTS, ids=[mutant.__name__ for mutant, _ in FUSED_MUTANTS])
def test_a_wrong_fused_pass_fails(mutate: Callable[[Patch], None], backend: str, monkeypatch: Patch) -> None:
    if backend not in fused.BACKENDS:
        pytest.skip("only the C++ kernels group, and they cannot be built here")
    check = fused_equals_stepwise(backend)
    check(monkeypatch)
    mutate(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError, IndexError)):
        check(monkeypatch)


MUTANTS: list[tuple[Callable[[Patch], None], tuple[Callable[[Patch], None], ...]]] = [
    (no_key_norm, (equations,)),
    (scaled_logits, (equations,)),
    (gain_ignored, (equations,)),
    (boundary_late, (equations,)),
    (cumulative_blocks, (equations,)),
    (block_means, (equations,)),
    (detached_block_sums, (gradient_flow, step_0)),
    (embedding_dropped, (equations, silence)),
    (final_mix_skipped, (equations, silence, step_0)),
    (one_query_per_transformer_block, (equations,)),
    (normalised_values, (equations,)),
    (random_queries, (step_0,)),
]


def test_the_unchanged_code_passes(monkeypatch: Patch) -> None:
    for check in (equations, silence, gradient_flow, step_0, gradients):
        check(monkeypatch)


@pytest.mark.parametrize(
    ("mutate", "check"),
    [(mutate, check) for mutate, checks in MUTANTS for check in checks],
    ids=lambda function: function.__name__,
)
def test_a_wrong_scheme_fails(
    mutate: Callable[[Patch], None], check: Callable[[Patch], None], monkeypatch: Patch
) -> None:
    stepwise(monkeypatch)
    mutate(monkeypatch)
    with pytest.raises((AssertionError, RuntimeError)):
        check(monkeypatch)
