"""Each token is mixed by itself, one source comes back as it is, and half-precision sources are mixed in float32."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from attnres_cli.errors import UserError
from attnres_cli.verify.depth import deviation
from attnres_cli.verify.finding import Finding, skipped, within
from attnres_cli.verify.identified import SHAPE, SITES, Examined, normal, sources_for, stir
from attnres_cli.verify.recipes import Recipe

ORDER = 40
TITLE = "tokens"

LEAK, SINGLE_SOURCE = "no token sees another", "one source comes back as it is"
NARROW = "bfloat16 sources are mixed in float32"
CHANGED = 2
SIZES = (1.0, 3.0, 0.5, 2.0)
# The result may be rounded to bfloat16 once (2⁻⁹), and a term of it once more; rounded logits of some tens cost 2⁻⁴.
NARROW_LIMIT = 2.0**-7
# In the half-precision trial all logits are about this large, and close to one another: bfloat16 rounds them by up to
# 0.125, which moves weights by a tenth.
LOGIT = 40.0


@torch.no_grad()
def check(examined: Examined) -> Iterator[Finding]:
    candidate, identified = examined.candidate, examined.identified
    stir(candidate)
    site = SITES[2]
    sources = sources_for(site)
    other = sources.clone()
    other[:, :, CHANGED] = normal(len(other), SHAPE[0], SHAPE[2], seed=17)
    kept = [token for token in range(SHAPE[1]) if token != CHANGED]
    before, after = (candidate.mix(each.unbind(0), site).double() for each in (sources, other))
    yield within(
        LEAK, deviation(after[:, kept], before[:, kept]), identified.tolerance,
        detail=f"a change of token {CHANGED} changes what other tokens get, earlier ones among them",
    )  # fmt: skip
    alone = normal(*SHAPE, seed=18)
    expected = (identified.recipe or Recipe()).mix(alone[None], *_vectors(examined, 0), identified.epsilon)[0]
    yield within(
        SINGLE_SOURCE, deviation(candidate.mix([alone], 0).double(), expected), identified.tolerance,
        detail="with one source, which is all that the first sublayer has, mix() gives something else",
    )  # fmt: skip
    yield _narrow(examined)


def _vectors(examined: Examined, site: int) -> tuple[torch.Tensor, torch.Tensor | None]:
    candidate = examined.candidate
    gains = candidate.key_gains()[site].double().view(1, -1) if candidate.has_gains else None
    return candidate.queries()[site].double().view(1, -1), gains


def _narrow(examined: Examined) -> Finding:
    """Sources in bfloat16, parameters in float32 (or in bfloat16, where the module wants them alike)."""
    candidate, identified = examined.candidate, examined.identified
    if identified.recipe is None or identified.faults or any(a != b for a, b in identified.queries.items()):
        return skipped(NARROW, "judged once the mixing itself is right")
    if not isinstance(candidate.object, nn.Module):
        return skipped(NARROW, "the class is no nn.Module, whose dtype can be changed")
    site = SITES[2]
    direction = normal(SHAPE[2], seed=19)
    sources = torch.stack(
        [v * (direction + 0.25 * normal(*SHAPE, seed=20 + i)) for i, v in enumerate(SIZES)]
    ).bfloat16()
    refusal = ""
    for dtype in (torch.float32, torch.bfloat16):
        candidate.object.to(dtype)
        try:
            queries = normal(len(candidate.queries()), SHAPE[2], seed=30)
            queries += LOGIT / SHAPE[2] ** 0.5 * direction / direction.norm()
            candidate.set_vectors("queries", queries)
            if candidate.has_gains:
                candidate.set_vectors("key_gains", torch.ones_like(queries))
            mixed = candidate.mix(sources.unbind(0), site)
            expected = Recipe().mix(sources.double(), *_vectors(examined, site), identified.epsilon)[0]
        except UserError as error:
            refusal = error.faults[0].what
            continue
        finally:
            candidate.object.double()
        return within(
            NARROW, deviation(mixed.double(), expected), NARROW_LIMIT,
            detail="logits or softmax are taken in bfloat16 when the sources are: cast to float32 first",
        )  # fmt: skip
    return skipped(NARROW, f"it takes no bfloat16: {refusal}")
