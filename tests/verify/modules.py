"""The shipped example of a user's module, changed and still faithful. Wrong ones are in wrong_modules.py."""

from __future__ import annotations

from pathlib import Path

from attnres_cli.verify import example

FAITHFUL = Path(example.__file__).read_text(encoding="utf-8")
MIXING, WALK = "equals Eq. 2-4", "equals Eq. 1 and 5-6"


def changed(*changes: tuple[str, str]) -> str:
    text = FAITHFUL
    for old, new in changes:
        assert text.count(old) == 1, (old, text.count(old))
        text = text.replace(old, new)
    return text


KEYS = "keys = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)"
LOGITS = "logits = (keys * self.gain[ordinal] * self.query[ordinal]).sum(-1)  # no 1/sqrt(d)"
SOFTMAX = "weights = torch.softmax(logits, dim=0)"
SUM = "return (weights.unsqueeze(-1) * wide).sum(0).to(values.dtype)"
FACTORS = "self.gain[ordinal] * self.query[ordinal]"
START = "partial: Tensor | None = None"
BOUNDARY = "if ordinal % self.block_sublayers == 0 and partial is not None:"
RESET = "blocks, partial = [*blocks, partial], None"
STEP = "output = sublayer(self.mix(blocks if partial is None else [*blocks, partial], ordinal))"
END = "return self.mix([*blocks, partial], len(sublayers))"

FAITHFUL_VARIANTS = {
    "as shipped": FAITHFUL,
    "without gains": changed(("def key_gains", "def _gains"), (FACTORS, "self.query[ordinal]")),
    "without a walk": changed(("def walk", "def _walk")),
    "full": changed(("block_sublayers = 3", "block_sublayers = 1")),
    "one block": changed(("block_sublayers = 3", "block_sublayers = 8")),
    "by number": changed(("block_sublayers = 3", "num_blocks = 4"), ("self.block_sublayers == 0", "2 == 0")),
    "epsilon not declared": changed(("epsilon = 1e-6  #", "_hidden = 1e-5  #"), ("self.epsilon)", "self._hidden)")),
    "float32 inside": changed(
        ("wide = values.to(torch.promote_types(values.dtype, torch.float32))", "wide = values.float()"),
        (FACTORS, "self.gain[ordinal].float() * self.query[ordinal].float()"),
    ),
    "logits by einsum": changed(
        (LOGITS, "logits = torch.einsum('nbtd,d->nbt', keys, self.gain[ordinal] * self.query[ordinal])")
    ),
    "one packed parameter": changed(
        (
            "nn.ParameterList(nn.Parameter(torch.zeros(d_model)) for _ in range(sites))",
            "nn.Parameter(torch.zeros(sites, d_model))",
        ),
        ("return list(self.query)", "return [self.query[site] for site in range(len(self.query))]"),
    ),
    "linear maps": changed(
        (
            "nn.ParameterList(nn.Parameter(torch.zeros(d_model)) for _ in range(sites))",
            "nn.ModuleList(nn.Linear(d_model, 1, bias=False) for _ in range(sites))\n"
            "        for each in self.query:\n            nn.init.zeros_(each.weight)",
        ),
        ("return list(self.query)", "return [each.weight for each in self.query]"),
        (FACTORS, "self.gain[ordinal] * self.query[ordinal].weight[0]"),
    ),
    "the paper's order at a boundary": changed(
        (STEP, "output = sublayer(self.mix(blocks if partial is None else [*blocks, partial], ordinal))")
    ),
    "no arguments": changed(
        ("def __init__(self, d_model: int, num_sublayers: int) -> None:", "def __init__(self) -> None:"),
        ("sites = num_sublayers + 1", "d_model, num_sublayers = 16, 8\n        sites = num_sublayers + 1"),
    ),
    "no module": changed(
        ("class BlockAttnRes(nn.Module):", "class BlockAttnRes:"),
        (
            "nn.ParameterList(nn.Parameter(torch.zeros(d_model)) for _ in range(sites))",
            "[nn.Parameter(torch.zeros(d_model)) for _ in range(sites)]",
        ),
        (
            "nn.ParameterList(nn.Parameter(torch.ones(d_model)) for _ in range(sites))",
            "[nn.Parameter(torch.ones(d_model)) for _ in range(sites)]",
        ),
    ),
}
