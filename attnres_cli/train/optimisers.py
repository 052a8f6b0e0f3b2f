"""Optimisers over parameters grouped by their declared role, never by their shape.

AdamW (fused) for everything, or Muon for the trunk's matrices and AdamW for the rest. Matrices that the model fuses
(q, k and v; gate and up) are orthogonalised apart: Muon gets views of their rows, which share memory with the
parameter.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnres_cli.model.trunk import LanguageModel
from attnres_cli.preset.reading import Preset
from attnres_cli.residual.parameters import ParameterGroup, Role

MUON_MOMENTUM = 0.95


@dataclass(frozen=True)
class _RowView:
    """Rows [first, last) of a fused parameter, as a leaf of its own that Muon updates in place."""

    name: str
    whole: nn.Parameter
    view: nn.Parameter
    first: int
    last: int


class Optimiser:
    """One object in front of AdamW and, where asked for, Muon. Learning rates are peaks; `step` takes the factor."""

    def __init__(self, model: LanguageModel, preset: Preset) -> None:
        train = preset.train
        parameters = {name: p for name, p in model.named_parameters() if p.requires_grad}
        groups = {name: group for name, group in model.parameter_groups().items() if name in parameters}
        by_muon = [n for n, g in groups.items() if train.optimizer == "muon" and g.role is Role.MATRIX]
        by_adamw = [n for n in groups if n not in set(by_muon)]
        on_meta = model.embedding.weight.is_meta
        self._adamw = torch.optim.AdamW(
            _adamw_groups(by_adamw, parameters, groups, preset),
            betas=(train.beta1, train.beta2),
            eps=train.adam_epsilon,
            fused=not on_meta,
        )
        self._names: dict[Tensor, str] = {parameters[name]: name for name in by_adamw}
        self._views = list(itertools.chain.from_iterable(_row_views(n, parameters[n], groups[n]) for n in by_muon))
        self._muon = self._build_muon(preset) if self._views else None
        self._names |= {view.view: view.name for view in self._views}
        self._trunk = [parameter for name, parameter in parameters.items() if not name.startswith("residual.")]
        self._own = [parameter for name, parameter in parameters.items() if name.startswith("residual.")]
        self._engines = [engine for engine in (self._adamw, self._muon) if engine is not None]
        self._peaks = [[group["lr"] for group in engine.param_groups] for engine in self._engines]

    def step(self, factor: float) -> None:
        """One update at `factor` × the peak learning rates, from the gradients in the model."""
        for engine, peaks in zip(self._engines, self._peaks, strict=True):
            for group, peak in zip(engine.param_groups, peaks, strict=True):
                group["lr"] = factor * peak
        for view in self._views:
            view.view.grad = None if view.whole.grad is None else view.whole.grad[view.first : view.last]
        for engine in self._engines:
            engine.step()

    def zero_grad(self) -> None:
        for parameter in (*self._trunk, *self._own):
            parameter.grad = None

    def gradient_norms(self) -> tuple[float, float]:
        """L2 norms of the gradient: over all parameters, and without the residual scheme's own."""
        trunk, own = (
            float(torch.nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None]))
            for parameters in (self._trunk, self._own)
        )
        return math.hypot(trunk, own), trunk

    def scale_gradients(self, factor: float) -> None:
        torch._foreach_mul_([p.grad for p in (*self._trunk, *self._own) if p.grad is not None], factor)

    def tensors(self) -> dict[str, Tensor]:
        """The whole state as named tensors, "<parameter>/<quantity>", for a checkpoint."""
        return {
            f"{self._names[parameter]}/{quantity}": value
            for engine in self._engines
            for parameter, state in engine.state.items()
            for quantity, value in state.items()
        }

    def load_tensors(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `tensors()` gave; parameters without state (never had a gradient) stay without."""
        parameters = {name: parameter for parameter, name in self._names.items()}
        engines = {p: engine for engine in self._engines for group in engine.param_groups for p in group["params"]}
        for key, value in tensors.items():
            name, quantity = key.rsplit("/", 1)
            parameter = parameters[name]
            engines[parameter].state[parameter][quantity] = value.to(parameter.device, copy=True)

    def _build_muon(self, preset: Preset) -> torch.optim.Muon:
        train = preset.train
        return torch.optim.Muon(
            [view.view for view in self._views],
            lr=train.learning_rate if train.muon_learning_rate is None else train.muon_learning_rate,
            weight_decay=train.weight_decay,
            momentum=MUON_MOMENTUM,
            adjust_lr_fn="match_rms_adamw",
        )


def _adamw_groups(
    names: list[str], parameters: dict[str, nn.Parameter], groups: dict[str, ParameterGroup], preset: Preset
) -> list[dict[str, object]]:
    """One torch parameter group per (weight decay, learning-rate factor)."""
    train = preset.train
    gathered: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for name in names:
        key = (groups[name].weight_decay, groups[name].learning_rate_factor)
        gathered.setdefault(key, []).append(parameters[name])
    return [
        {"params": members, "lr": train.learning_rate * factor, "weight_decay": train.weight_decay if decays else 0.0}
        for (decays, factor), members in gathered.items()
    ]


def _row_views(name: str, parameter: nn.Parameter, group: ParameterGroup) -> list[_RowView]:
    """The matrices inside one parameter: itself, or one view per matrix fused into it."""
    rows = group.split_rows or (parameter.shape[0],)
    assert sum(rows) == parameter.shape[0], (name, rows, parameter.shape)
    ends = list(itertools.accumulate(rows))
    return [
        _RowView(
            f"{name}[{end - count}:{end}]",
            parameter,
            nn.Parameter(parameter.detach()[end - count : end]),
            end - count,
            end,
        )
        for count, end in zip(rows, ends, strict=True)
    ]
