"""How far rounding may take one site of depth attention and its gradients from the exact result: a running error
analysis, term by term before anything cancels, to first order, in float64.

Formulas as in `residual/operator.py`: α = softmax(l), l_i = s_i (q · v_i), s_i = 1/rms(v_i), m = Σ α_i v_i,
output = g ⊙ m̂ with m̂ = ρ m, ρ = 1/rms(m). Back, with y the output's gradient: G = ρ (g ⊙ y - m̂ mean(g ⊙ y ⊙ m̂)),
a_i = α_i G · (v_i - m), dv_i = α_i G + s_i a_i q - s_i² / d · a_i l_i v_i, dq = Σ s_i a_i v_i, dg = Σ y ⊙ m̂.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

UNIT = 2.0**-24  # of float32, half the distance of neighbours at 1
# Roundings on the way to one number, a product of some dozen channels among them: its sum is taken in lanes of eight or
# sixteen, a handful of additions each, which a tree of four or five joins; then a root, a quotient, a factor.
ROUNDINGS = 16


class Errors(NamedTuple):
    """By name the bounds of: output [M, d], weights [n, M], gradients of sources n × [M, d], of query and gain [d]."""

    output: Tensor
    weights: Tensor
    grad_values: list[Tensor]
    grad_query: Tensor
    grad_gain: Tensor


def errors(values: Sequence[Tensor], query: Tensor, gain: Tensor, grad: Tensor, epsilon: float) -> Errors:
    """Of a computation in float32 from these tensors ([M, d] each; query and gain [d]), which are exact."""
    v = torch.stack([value.double() for value in values])
    q, g, y = query.double(), gain.double(), grad.double()
    tokens, d = y.shape
    few = ROUNDINGS * UNIT
    s = (v.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    logits = (s * v * q).sum(-1, keepdim=True)
    alpha = torch.softmax(logits, 0)
    # A logit is at most |q| √d. The odds α : 1 - α are off by a factor e^(±2Δl), so α itself by 2 Δl α (1 - α): one
    # that takes all cannot be wrong. On the way back it is e^(l - log Σ e^l), whose two large numbers are rounded.
    largest = 1 + float(q.norm()) * d**0.5
    logit_error = few * largest
    mixing_error = alpha * (2 * logit_error * (1 - alpha) + few)
    alpha_error = mixing_error + alpha * 2 * UNIT * largest
    m = (alpha * v).sum(0)
    m_error = (mixing_error * v.abs()).sum(0)
    rho = (m.square().mean(-1, keepdim=True) + epsilon).rsqrt()
    normed = rho * m
    rho_error = rho * m_error.square().mean(-1, keepdim=True).sqrt()  # relative
    normed_error = rho * m_error + normed.abs() * (rho_error + few)
    output_error = g.abs() * normed_error + few * (g * normed).abs()

    seen = (g * y).abs()
    grad_m = rho * (g * y - normed * (g * y * normed).mean(-1, keepdim=True))
    grad_m_terms = rho * (seen + normed.abs() * (seen * normed.abs()).mean(-1, keepdim=True))
    grad_m_error = (rho_error + few) * grad_m_terms + rho * (
        normed_error * (seen * normed.abs()).mean(-1, keepdim=True)
        + normed.abs() * (seen * normed_error).mean(-1, keepdim=True)
    )
    along = (grad_m * (v - m)).sum(-1, keepdim=True)
    along_error = (
        grad_m_error * (v - m).abs() + grad_m.abs() * m_error + few * grad_m_terms * (v.abs() + m.abs())
    ).sum(-1, keepdim=True)
    a, a_error = alpha * along, alpha_error * along.abs() + alpha * along_error
    through = (a_error * logits.abs() + a.abs() * logit_error) * s.square() / d
    grad_values_error = (
        alpha_error * grad_m.abs() + alpha * grad_m_error
        + s * a_error * q.abs() + through * v.abs()
        + few * (alpha * grad_m_terms + s * a.abs() * q.abs() + s.square() / d * (a * logits * v).abs())
    )  # fmt: skip
    summed = (ROUNDINGS + tokens) * UNIT  # whatever the order in which tokens are added up
    return Errors(
        output_error,
        alpha_error.squeeze(-1),
        list(grad_values_error),
        (s * (a_error + len(v) * summed * a.abs()) * v.abs()).sum((0, 1)),
        (y.abs() * (normed_error + summed * normed.abs())).sum(0),
    )
