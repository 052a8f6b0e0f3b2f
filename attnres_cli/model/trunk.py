"""The language model: embedding, one loop over sublayers that a residual scheme steers, final norm, head."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attnres_cli import discovery
from attnres_cli.model.cache import KeyValueCache
from attnres_cli.model.cross_entropy import summed_cross_entropy
from attnres_cli.model.sublayer import Sublayer
from attnres_cli.preset.schema import ModelConfig
from attnres_cli.residual.alteration import Alteration, twin_of
from attnres_cli.residual.norm import RMSNorm
from attnres_cli.residual.parameters import ParameterGroup, Role
from attnres_cli.residual.protocol import Residual, Site, State, SublayerInput

# The sublayers in order, each with its place, as the trunk loop calls them.
Depth = Sequence[tuple[Site, Callable[..., Tensor]]]


class Watcher(Protocol):
    """Sees every step of the trunk loop; what it does with the tensors is its own affair."""

    def sublayer(self, site: Site, before: State, x: SublayerInput, output: Tensor, after: State) -> None: ...

    def close(self, state: State, output: Tensor) -> None: ...


class TransformerBlock(nn.Module):
    """One attention and one feed-forward sublayer with their norms; a container, the trunk loop does the work."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        mixer = discovery.load("model.mixers", config.mixer, what="sequence mixer", where="model.mixer")
        feed_forward = discovery.load(
            "model.feed_forward", config.feed_forward, what="feed-forward", where="model.feed_forward"
        )
        self.attention_norm = RMSNorm(config.d_model, config.norm_epsilon)
        self.attention: Sublayer = mixer.Mixer(config)
        self.feed_forward_norm = RMSNorm(config.d_model, config.norm_epsilon)
        self.feed_forward: Sublayer = feed_forward.FeedForward(config)


class LanguageModel(nn.Module):
    """Decoder-only transformer. Knows the residual scheme only through `residual.protocol.Residual`.

    Built by `model.build.build_model`, which also initialises it.
    """

    def __init__(self, config: ModelConfig, residual: Residual, vocab_size: int) -> None:
        super().__init__()
        self.config = config
        self.vocab_size = vocab_size
        self.embedding = nn.Embedding(vocab_size, config.d_model)
        self.blocks = nn.ModuleList(TransformerBlock(config) for _ in range(config.transformer_blocks))
        self.residual = residual
        self.final_norm = RMSNorm(config.d_model, config.norm_epsilon)
        self.head = None if config.tie_embeddings else nn.Linear(config.d_model, vocab_size, bias=False)
        self._depth = tuple(self._sites_and_sublayers())
        # Activation checkpointing: keep only what passes between `residual.segments()`, and compute the rest again.
        self.recompute_segments = False
        # More arguments for torch.utils.checkpoint, for those who watch it work.
        self.checkpoint_options: dict[str, Any] = {}
        # Who computes the residual path, and why; set where the model is built.
        self.computed_by = ""
        self._projects = type(residual).project is not Residual.project
        # Of a twin that `altered` made.
        self._altered = False
        self._removed: frozenset[int] = frozenset()

    def forward(self, tokens: Tensor, cache: KeyValueCache | None = None) -> Tensor:
        """tokens [B, T] int64 → logits [B, T, vocabulary]; `cache` as for `walk`."""
        return F.linear(self.walk(tokens, cache=cache), self.head_weight)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Summed cross-entropy in nats over targets [B, T] that are not `IGNORED_TARGET`; a scalar in at least
        float32."""
        return summed_cross_entropy(self.walk(tokens).flatten(0, 1), self.head_weight, targets.flatten())

    def walk(self, tokens: Tensor, watcher: Watcher | None = None, *, cache: KeyValueCache | None = None) -> Tensor:
        """The trunk: tokens [B, T] → what the head sees [B, T, d]. `watcher` is shown every sublayer, for observers;
        nobody watching, a scheme may run in fused form. With a cache, the tokens follow those that it holds, and it
        holds them, too, from then on."""
        if cache is not None:
            return self._walk_on(tokens, watcher, cache)
        return self._through_depth(tokens, watcher, self._depth)

    def altered(self, alteration: Alteration) -> LanguageModel:
        """A twin of this model with the same parameters, in whose walk through depth `alteration` holds, step by step;
        this one stays as it is. For evaluation."""
        twin = twin_of(self)
        twin.residual = self.residual.altered(alteration)
        twin._altered, twin._removed = True, alteration.removed
        # A block that has moved stands at its new place with its own norms.
        there = [self._depth[2 * alteration.block_at(site.layer) + site.ordinal % 2] for site, _ in self._depth]
        twin._depth = tuple(
            (replace(site, norm=moved.norm), sublayer)
            for (site, _), (moved, sublayer) in zip(self._depth, there, strict=True)
        )
        return twin

    def states(self, tokens: Tensor) -> list[State]:
        """The scheme's state before each sublayer and before the end, L + 1 of them, step by step."""
        states = [self.residual.open(self.embedding(tokens))]
        for place in self._depth:
            states.append(self._through([place], None, *states[-1]))
        return states

    def resume(self, state: State, ordinal: int) -> Tensor:
        """What the head sees [B, T, d], from the state before sublayer `ordinal` (num_sublayers: before the end)."""
        return self.residual.close(self._through(self._depth[ordinal:], None, *state), self.final_norm)

    def _walk_on(self, tokens: Tensor, watcher: Watcher | None, cache: KeyValueCache) -> Tensor:
        cache.require_room(*tokens.shape)
        depth: Depth = [
            (site, partial(sublayer, cache=cache.layers[site.layer]) if site.kind == "attention" else sublayer)
            for site, sublayer in self._depth
        ]
        seen = self._through_depth(tokens, watcher, depth)
        cache.length += tokens.shape[1]
        return seen

    def _through_depth(self, tokens: Tensor, watcher: Watcher | None, depth: Depth) -> Tensor:
        residual = self.residual
        embedding = self.embedding(tokens)
        recompute = self.recompute_segments and torch.is_grad_enabled()
        stepwise = watcher is not None or recompute or self._altered
        fused = None if stepwise else residual.fused_pass(embedding)
        if fused is not None:
            for site, sublayer in depth:
                fused.write(site, sublayer(fused.read(site)))
            return fused.close(self.final_norm)
        state = residual.open(embedding)
        if recompute and watcher is None:
            for first, last in residual.segments():
                segment = partial(self._through, depth[first:last], None)
                state = checkpoint(
                    segment, *state, use_reentrant=False, preserve_rng_state=False, **self.checkpoint_options
                )
        else:
            state = self._through(depth, watcher, *state)
        closed = residual.close(state, self.final_norm)
        if watcher is not None:
            watcher.close(state, closed)
        return closed

    def _through(self, depth: Depth, watcher: Watcher | None, *state: Tensor) -> State:
        """The state after the sublayers of `depth`."""
        for site, sublayer in depth:
            if site.ordinal in self._removed:
                state = self.residual.skip(state, site)
                continue
            x, before = self.residual.read(state, site)
            if self._projects and site.kind == "attention":
                project = _Projecting(self.residual, before, site)
                output = sublayer(x, project)
                before = project.state
            else:
                output = sublayer(x)
            after = self.residual.write(before, site, output)
            if watcher is not None:
                watcher.sublayer(site, before, x, output, after)
            state = after
        return state

    @property
    def head_weight(self) -> Tensor:
        return self.embedding.weight if self.head is None else self.head.weight

    def sites(self) -> tuple[Site, ...]:
        return tuple(site for site, _ in self._depth)

    def parameter_groups(self) -> dict[str, ParameterGroup]:
        """How the optimiser treats each parameter, by its name in the state dict; every parameter is named."""
        groups = {"embedding.weight": ParameterGroup(Role.EMBEDDING, weight_decay=True)}
        if self.head is not None:
            groups["head.weight"] = ParameterGroup(Role.HEAD, weight_decay=True)
        for path, module in self.named_modules():
            if path.startswith("residual."):
                continue  # the scheme says
            if isinstance(module, RMSNorm):
                groups[f"{path}.gain"] = ParameterGroup(Role.NORM_GAIN, weight_decay=False)
            elif isinstance(module, Sublayer):
                for name, spec in module.matrices().items():
                    groups[f"{path}.{name}"] = ParameterGroup(
                        Role.MATRIX, weight_decay=True, split_rows=spec.split_rows
                    )
        groups |= {f"residual.{name}": group for name, group in self.residual.parameter_groups().items()}
        undeclared = {name for name, _ in self.named_parameters()} ^ groups.keys()
        assert not undeclared, f"parameters without an optimiser group, or groups without a parameter: {undeclared}"
        return groups

    def dead_parameters(self) -> dict[str, str]:
        """Parameters that provably never get a gradient, by their name in the state dict, each with the reason."""
        dead = {f"residual.{name}": reason for name, reason in self.residual.dead_parameters().items()}
        norms = {ordinal: f"blocks.{site.layer}.{site.kind}_norm.gain" for ordinal, site in enumerate(self.sites())}
        norms[len(norms)] = "final_norm.gain"
        return dead | {norms[ordinal]: reason for ordinal, reason in self.residual.unused_norms().items()}

    def _sites_and_sublayers(self) -> list[tuple[Site, Sublayer]]:
        depth: list[tuple[Site, Sublayer]] = []
        for layer, module in enumerate(self.blocks):
            block = cast(TransformerBlock, module)
            depth.append((Site(2 * layer, layer, "attention", block.attention_norm), block.attention))
            depth.append((Site(2 * layer + 1, layer, "feed_forward", block.feed_forward_norm), block.feed_forward))
        return depth


class _Projecting:
    """Hands one attention's q, k and v to the residual scheme, and keeps the state that comes back."""

    def __init__(self, residual: Residual, state: State, site: Site) -> None:
        self._residual, self._site = residual, site
        self.state = state

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, self.state = self._residual.project(self.state, self._site, q, k, v)
        return q, k, v
