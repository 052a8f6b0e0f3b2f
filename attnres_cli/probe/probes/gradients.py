"""How evenly gradients fall: by transformer block, and by kind of parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from attnres_cli.model.sublayer import Sublayer
from attnres_cli.model.trunk import LanguageModel
from attnres_cli.probe.subject import Findings, Subject
from attnres_cli.train.observers.gradients import grad_norm, mean_loss_gradients, parameters_by_block

TITLE = "Gradients"


def measure(subject: Subject) -> Findings:
    """Of the mean loss over all counted targets, without clipping and without weight decay.

    Arrays parameter_grad_norm [L_b] (a block's matrices and norms; not what the residual scheme owns) and
    activation_grad_norm [L_b] (of the stream after each block; all tokens together as one vector). grad_norm_by_kind:
    norm over all parameters of a kind; the parts of a fused matrix count apart.
    """
    model = subject.model
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    found, of_streams = mean_loss_gradients(model, subject.batches, subject.precision, list(trained.values()))
    by_identity = dict(zip(map(id, trained.values()), found, strict=True))
    per_block = [
        float(grad_norm([by_identity[id(parameter)] for parameter in parameters]))
        for parameters in parameters_by_block(model)
    ]
    arrays = {"parameter_grad_norm": np.array(per_block), "activation_grad_norm": of_streams.numpy()}
    norms = {"parameter": arrays["parameter_grad_norm"], "activation": arrays["activation_grad_norm"]}
    summary = {
        "grad_norm_by_kind": _by_kind(model, dict(zip(trained, found, strict=True))),
        "spread_max_over_min": {name: _spread(values) for name, values in norms.items()},
        "coefficient_of_variation": {name: _variation(values) for name, values in norms.items()},
    }
    return Findings(summary, arrays)


def _by_kind(model: LanguageModel, gradients: dict[str, Tensor | None]) -> dict[str, float]:
    """Kind → norm. A sublayer's matrices count by what they make (query, key, value, output, gate, up, down), all else
    by its role to the optimiser. Only kinds that the loss reaches."""
    of_kind: dict[str, list[Tensor | None]] = {}
    for name, kinds, rows in _kinds(model):
        gradient = gradients.get(name)
        if gradient is not None:
            parts: Sequence[Tensor] = [gradient] if rows is None else torch.split(gradient, rows)
            for kind, part in zip(kinds, parts, strict=True):
                of_kind.setdefault(kind, []).append(part)
    return {kind: float(grad_norm(parts)) for kind, parts in of_kind.items()}


def _kinds(model: LanguageModel) -> Iterator[tuple[str, tuple[str, ...], list[int] | None]]:
    """(name, kinds, rows of each kind where there are several) of every parameter."""
    matrices = {
        f"{path}.{name}": spec
        for path, module in model.named_modules()
        if isinstance(module, Sublayer)
        for name, spec in module.matrices().items()
    }
    for name, group in model.parameter_groups().items():
        if name in matrices:
            spec = matrices[name]
            yield name, spec.roles, None if spec.split_rows is None else list(spec.split_rows)
        else:
            yield name, (group.role.value,), None


def _spread(norms: npt.NDArray[np.float64]) -> float | None:
    """Largest over smallest; None where a block gets no gradient."""
    return float(norms.max() / norms.min()) if norms.min() > 0 else None


def _variation(norms: npt.NDArray[np.float64]) -> float | None:
    """Standard deviation over the blocks (all of them, so with n) over the mean."""
    return float(norms.std() / norms.mean()) if norms.mean() > 0 else None
