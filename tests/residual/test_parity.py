"""The same numbers and gradients as published packages, where they are installed (the extra `parity`).

The package hyper-connections folds its streams into the batch, [(batch streams), tokens, d], and wraps one sublayer at
a time; here both walk the same sublayers. Its weights are set from ours, and its gradients compared with ours.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.protocol import Geometry, Residual, Site
from attnres_cli.residual.schemes import hyper_connections, mhc

published = pytest.importorskip("hyper_connections", reason="pip install 'attnres-cli[parity]'")

WIDTH, SITES = 12, 6


class Stack:
    """The same few sublayers for both: tanh of a matrix after an RMSNorm of its own, and a final norm."""

    def __init__(self, dtype: torch.dtype) -> None:
        generator = torch.Generator().manual_seed(3)
        self.matrices = torch.randn(SITES, WIDTH, WIDTH, generator=generator, dtype=torch.float64).to(dtype)
        self.norms = [RMSNorm(WIDTH, 0.0).to(dtype) for _ in range(SITES + 1)]
        with torch.no_grad():
            for norm in self.norms:
                norm.gain.copy_(1 + 0.3 * torch.randn(WIDTH, generator=generator, dtype=torch.float64))

    def sublayer(self, ordinal: int, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.matrices[ordinal])

    def ours(self, scheme: Residual, embedding: Tensor) -> Tensor:
        state = scheme.open(embedding)
        for ordinal in range(SITES):
            site = Site(ordinal, ordinal // 2, "attention" if ordinal % 2 == 0 else "feed_forward", self.norms[ordinal])
            x, state = scheme.read(state, site)
            assert isinstance(x, Tensor)
            state = scheme.write(state, site, self.sublayer(ordinal, x))
        return scheme.close(state, self.norms[SITES])

    def theirs(self, connections: list[Any], streams: int, embedding: Tensor) -> Tensor:
        expand, reduce = published.get_expand_reduce_stream_functions(streams)
        residuals = expand(embedding)
        for ordinal, connection in enumerate(connections):
            x, add_residual = connection(residuals)
            residuals = add_residual(self.sublayer(ordinal, self.norms[ordinal](x)))
        return self.norms[SITES](reduce(residuals))


def geometry() -> Geometry:
    return Geometry(
        d_model=WIDTH, num_sublayers=SITES, norm_epsilon=0.0, num_heads=2, num_kv_heads=2, head_dim=WIDTH // 2
    )


def stir(scheme: Residual, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(7)
    scheme.to(dtype)
    with torch.no_grad():
        for name, parameter in scheme.named_parameters():
            scheme.initialise(name, parameter, generator)
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)


def embeddings(dtype: torch.dtype) -> Tensor:
    return torch.randn(2, 5, WIDTH, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def backward(output: Tensor) -> None:
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    (output * weights.to(output.dtype)).sum().backward()


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("streams", [2, 4])
@pytest.mark.parametrize(("dtype", "accuracy"), [(torch.float64, 1e-11), (torch.float32, 1e-4)])
def test_hyper_connections(dynamic: bool, streams: int, dtype: torch.dtype, accuracy: float) -> None:
    """Whole stacks: outputs and every gradient.

    The package has no static form: its scales at zero are one. Its RMSNorm has a gain, which stays one here (a gain is
    a factor on the rows of W). At the first sublayer it weighs equal streams, whose factor the norm undoes up to sign:
    one-hot there, as at its initialisation.
    """
    scheme = hyper_connections.Scheme(hyper_connections.Config(num_streams=streams, dynamic=dynamic), geometry())
    stir(scheme, dtype)
    connections = []
    for ordinal in range(SITES):
        own = scheme.sites.at(ordinal)
        connection = published.HyperConnections(streams, dim=WIDTH, layer_index=ordinal).to(dtype)
        with torch.no_grad():
            connection.static_alpha[:, 1:] = own.carry
            connection.static_beta.copy_(own.write)
            connection.dynamic_alpha_scale.zero_()
            connection.dynamic_beta_scale.zero_()
            if ordinal > 0:
                connection.static_alpha[:, 0] = own.read
            if dynamic:
                connection.dynamic_alpha_fn[:, 1:] = own.carry_projection
                connection.dynamic_beta_fn.copy_(own.write_projection[:, 0])
                connection.dynamic_alpha_scale.copy_(own.mixing_scale)
                connection.dynamic_beta_scale.copy_(own.write_scale)
                if ordinal > 0:
                    connection.dynamic_alpha_fn[:, 0] = own.read_projection[:, 0]
        connections.append(connection)
    stack = Stack(dtype)
    ours, theirs = embeddings(dtype).requires_grad_(), embeddings(dtype).requires_grad_()
    found, expected = stack.ours(scheme, ours), stack.theirs(connections, streams, theirs)
    torch.testing.assert_close(found, expected, rtol=0, atol=accuracy)
    backward(found)
    backward(expected)

    def same(mine: Tensor, other: Tensor | None) -> None:
        assert mine.grad is not None
        assert other is not None
        size = float(other.abs().max())
        assert size > 1e-6
        torch.testing.assert_close(mine.grad, other, rtol=0, atol=accuracy * max(size, 1.0))

    same(ours, theirs.grad)
    for ordinal, connection in enumerate(connections):
        own = scheme.sites.at(ordinal)
        same(own.carry, connection.static_alpha.grad[:, 1:])
        same(own.write, connection.static_beta.grad)
        if ordinal > 0:
            same(own.read, connection.static_alpha.grad[:, 0])
        if dynamic:
            same(own.carry_projection, connection.dynamic_alpha_fn.grad[:, 1:])
            same(own.write_projection, connection.dynamic_beta_fn.grad[:, None])
            same(own.write_scale, connection.dynamic_beta_scale.grad)
            if ordinal > 0:
                same(own.read_projection, connection.dynamic_alpha_fn.grad[:, :1])
                same(own.mixing_scale, connection.dynamic_alpha_scale.grad)


def block_diagonal(columns: Tensor, streams: int) -> Tensor:
    """[d, m] for every stream → [n d, n m]: logits of stream s come from stream s alone."""
    return torch.block_diag(*[columns] * streams)


def test_manifold_constrained() -> None:
    """One sublayer: what it reads and what it leaves, and all gradients of the weights.

    The package deviates from the paper in three ways, and the closest case that is the same in both is compared:
    it computes the logits of stream s from stream s alone, normalised for itself (the paper: from all n d channels, so
    φ is block diagonal here and all streams have one size); its matrix is the transpose of the paper's, and so are its
    normalisations, rows before columns (the same limit, so logits are small enough for 20 iterations to reach it); it
    computes in float32.
    """
    streams, ordinal = 4, 2
    scheme = mhc.Scheme(mhc.Config(num_streams=streams), geometry())
    scheme.float()
    connection = published.mHC(streams, dim=WIDTH, layer_index=ordinal)
    generator = torch.Generator().manual_seed(5)
    own = scheme.sites.at(ordinal)
    with torch.no_grad():
        for parameter in connection.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
        connection.norm.gamma.zero_()
        alpha_fn = connection.dynamic_alpha_fn[0]
        own.projection_pre.copy_(block_diagonal(alpha_fn[:, :1], streams))
        own.projection_post.copy_(block_diagonal(connection.dynamic_beta_fn[:, None], streams))
        # Its logit (from stream s, to stream t) is ours at row t, column s.
        by_stream = block_diagonal(alpha_fn[:, 1:], streams).view(-1, streams, streams)
        own.projection_res.copy_(by_stream.transpose(1, 2).flatten(1))
        own.scale_pre.copy_(connection.pre_branch_scale[0])
        own.scale_res.copy_(connection.residual_scale[0])
        own.scale_post.copy_(connection.h_post_scale)
        own.bias_pre.copy_(connection.static_alpha[:, 0])
        own.bias_post.copy_(connection.static_beta)
        own.bias_res.copy_(connection.static_alpha[:, 1:].t().flatten())
    x = torch.randn(2, 5, streams, WIDTH, generator=generator)
    x = 1.7 * x / x.square().mean(-1, keepdim=True).sqrt()
    output = torch.randn(2, 5, WIDTH, generator=generator)

    taken, add_residual = connection(x.permute(0, 2, 1, 3).flatten(0, 1))
    left = add_residual(output).unflatten(0, (2, streams)).permute(0, 2, 1, 3)
    seen, state = scheme.read((x,), Site(ordinal, 1, "attention", _Nothing()))
    assert isinstance(seen, Tensor)
    (streams_after,) = scheme.write(state, Site(ordinal, 1, "attention", _Nothing()), output)
    torch.testing.assert_close(seen, taken, rtol=0, atol=1e-5)
    torch.testing.assert_close(streams_after, left, rtol=0, atol=1e-5)

    for tensors in ((seen, streams_after), (taken, left)):
        backward(torch.cat([tensors[0].unsqueeze(-2), tensors[1]], -2))
    theirs = connection.dynamic_alpha_fn.grad[0]
    torch.testing.assert_close(own.bias_pre.grad, connection.static_alpha.grad[:, 0], rtol=0, atol=1e-4)
    torch.testing.assert_close(own.bias_post.grad, connection.static_beta.grad, rtol=0, atol=1e-4)
    ours_res = own.bias_res.grad.view(streams, streams)  # type: ignore[union-attr]
    torch.testing.assert_close(ours_res, connection.static_alpha.grad[:, 1:].t(), rtol=0, atol=1e-4)
    for part, grad in (("pre", "pre_branch_scale"), ("res", "residual_scale"), ("post", "h_post_scale")):
        ours_scale = own.get_parameter(f"scale_{part}").grad
        torch.testing.assert_close(ours_scale, connection.get_parameter(grad).grad.view(()), rtol=0, atol=1e-4)
    torch.testing.assert_close(_diagonal(own.projection_pre.grad, streams), theirs[:, :1], rtol=0, atol=1e-4)
    post = connection.dynamic_beta_fn.grad[:, None]
    torch.testing.assert_close(_diagonal(own.projection_post.grad, streams), post, rtol=0, atol=1e-4)
    # [n, d, t, s] with both streams the same: (d, t, s) summed over s
    res = own.projection_res.grad.view(streams, WIDTH, streams, streams)  # type: ignore[union-attr]
    shared = torch.stack([res[s, :, :, s] for s in range(streams)]).sum(0)
    torch.testing.assert_close(shared, theirs[:, 1:], rtol=0, atol=1e-4)
    assert theirs.abs().amin() > 1e-3


def _diagonal(gradient: Tensor | None, streams: int) -> Tensor:
    """The sum over streams of their own blocks, [n d, n m] → [d, m]: the gradient of shared columns."""
    assert gradient is not None
    blocks = gradient.view(streams, WIDTH, streams, -1)
    return torch.stack([blocks[s, :, s] for s in range(streams)]).sum(0)


class _Nothing(nn.Module):
    """In place of the sublayer's norm: the package leaves that to the sublayer."""

    gain: nn.Parameter
    epsilon = 0.0

    def forward(self, x: Tensor) -> Tensor:
        return x
