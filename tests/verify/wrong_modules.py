"""The shipped example of a user's module with one fault each."""

from __future__ import annotations

from tests.verify.modules import (
    BOUNDARY,
    END,
    FACTORS,
    KEYS,
    LOGITS,
    MIXING,
    RESET,
    SOFTMAX,
    START,
    STEP,
    SUM,
    WALK,
    changed,
)

# name: (text, what must fail, what else may follow from it, a part of what the user is told)
MUTANTS: dict[str, tuple[str, set[str], set[str], str]] = {
    "keys not normalised": (
        changed((KEYS, "keys = wide")),
        {"keys are RMS-normalised", MIXING},
        set(),
        "keys that are not normalised",
    ),
    "keys by LayerNorm": (
        changed((KEYS, "keys = torch.nn.functional.layer_norm(wide, wide.shape[-1:], eps=self.epsilon)")),
        {"keys are RMS-normalised", MIXING},
        set(),
        "LayerNorm",
    ),
    "values normalised": (
        changed((SUM, SUM.replace("* wide", "* keys"))),
        {"values are not normalised", MIXING},
        set(),
        "normalised values",
    ),
    "scaled": (
        changed((LOGITS, LOGITS.replace(".sum(-1)", ".sum(-1) / values.shape[-1] ** 0.5"))),
        {"logits have no scale", MIXING},
        set(),
        "1/sqrt(d)",
    ),
    "mean over channels": (
        changed((LOGITS, LOGITS.replace(".sum(-1)", ".mean(-1)"))),
        {"logits have no scale", MIXING},
        set(),
        "1/d scale",
    ),
    "softmax over tokens": (
        changed((SOFTMAX, "weights = torch.softmax(logits, dim=-1)")),
        {"softmax over the sources", MIXING, "no token sees another", "no token sees a later one"},
        set(),
        "over tokens",
    ),
    "softmax over channels": (
        changed((LOGITS, LOGITS.replace(".sum(-1)", "")), (SUM, SUM.replace("weights.unsqueeze(-1)", "weights"))),
        {"softmax over the sources", MIXING},
        set(),
        "every channel",
    ),
    "sigmoid weights": (
        changed((SOFTMAX, "weights = torch.sigmoid(logits)")),
        {"softmax over the sources", MIXING},
        set(),
        "sigmoid",
    ),
    "a sum at zero queries": (
        changed((SOFTMAX, "weights = torch.softmax(logits, dim=0) * len(sources)")),
        {"softmax over the sources", MIXING},
        set(),
        "number of sources",
    ),
    "gain ignored": (
        changed((FACTORS, "self.query[ordinal]")),
        {"the key norm's gain acts", MIXING, "gradient to the gains"},
        set(),
        "gain left out",
    ),
    "one query for all sites": (
        changed(
            ("return list(self.query)", "return [self.query[0]] * len(self.query)"),
            (FACTORS, "self.gain[ordinal] * self.query[0]"),
        ),
        {"sites share no query"},
        set(),
        "share one vector",
    ),
    "a query per transformer block": (
        changed((FACTORS, "self.gain[ordinal] * self.query[ordinal - ordinal % 2]")),
        {"each site has its own query", MIXING},
        {"the key norm's gain acts"},
        "query of site",
    ),
    "the query of the site before": (
        changed((FACTORS, "self.gain[ordinal - 1] * self.query[ordinal - 1]")),
        {"each site has its own query", MIXING},
        {"gradient to the queries", "gradient to the gains"},
        "site 1 mixes with the query of site 0",
    ),
    "random queries": (
        changed(("torch.zeros(d_model)", "0.02 * torch.randn(d_model)")),
        {"queries start at zero"},
        set(),
        "not zero",
    ),
    "softmax in bfloat16": (
        changed((SOFTMAX, "weights = torch.softmax(logits.bfloat16(), dim=0).to(wide.dtype)")),
        {"float32 or wider inside"},
        {"gradient to the values", "gradient to the queries"},
        "half precision",
    ),
    "softmax in the sources' dtype": (
        changed(
            ("wide = values.to(torch.promote_types(values.dtype, torch.float32))", "wide = values"),
            (FACTORS, "(self.gain[ordinal] * self.query[ordinal]).to(values.dtype)"),
        ),
        {"bfloat16 sources are mixed in float32"},
        set(),
        "cast to float32 first",
    ),
    "a leak between tokens": (
        changed(
            (
                SUM,
                "mixed = (weights.unsqueeze(-1) * wide).sum(0)\n"
                "        return mixed + 0.1 * mixed.mean(1, keepdim=True)",
            )
        ),
        {MIXING, "no token sees another", "no token sees a later one", "one source comes back as it is"},
        set(),
        "token 2",
    ),
    "keys detached": (
        changed((KEYS, KEYS + "\n        keys = keys.detach()")),
        {"gradient to the keys"},
        {"gradient through the block sums"},
        "become keys",
    ),
    "values detached": (
        changed((SUM, SUM.replace("* wide)", "* wide.detach())"))),
        {"gradient to the values"},
        {"gradient through the block sums"},
        "summed up",
    ),
    "query detached": (
        changed((FACTORS, "self.gain[ordinal] * self.query[ordinal].detach()")),
        {"gradient to the queries"},
        set(),
        "no gradient reaches the query",
    ),
    "scaled and not normalised": (
        changed((KEYS, "keys = wide"), (LOGITS, LOGITS.replace(".sum(-1)", ".sum(-1) / values.shape[-1] ** 0.5"))),
        {"keys are RMS-normalised", "logits have no scale", MIXING},
        set(),
        "1/sqrt(d)",
    ),
    "something unknown": (
        changed((SOFTMAX, "weights = torch.softmax(logits.square(), dim=0)")),
        {MIXING},
        set(),
        "no way that is known",
    ),
    "no output site": (
        changed(("sites = num_sublayers + 1", "sites = num_sublayers"), (END, "return partial")),
        {"the output site has a query"},
        {"the output site mixes all sources", WALK},
        "no output site",
    ),
    "the embedding twice": (
        changed((START, "partial: Tensor | None = embedding")),
        {"the embedding is one source", WALK},
        set(),
        "a source twice",
    ),
    "the embedding as a source and in a sum": (
        changed(
            (START, "partial: Tensor | None = embedding"),
            (BOUNDARY, BOUNDARY.replace("and partial", "and ordinal and partial")),
        ),
        {"the embedding is one source", WALK},
        set(),
        "begins the first sum, too",
    ),
    "the embedding in the first block": (
        changed(
            ("blocks: list[Tensor] = [embedding]", "blocks: list[Tensor] = []"),
            (START, "partial: Tensor | None = embedding"),
            (BOUNDARY, BOUNDARY.replace("and partial", "and ordinal and partial")),
        ),
        {"the embedding is one source", WALK},
        set(),
        "no source but the start",
    ),
    "blocks one late": (
        changed((BOUNDARY, BOUNDARY.replace("ordinal %", "ordinal > 1 and (ordinal - 1) %"))),
        {"blocks end where they should", WALK},
        set(),
        "one sublayer late",
    ),
    "blocks one late, the first of one": (
        changed((BOUNDARY, BOUNDARY.replace("ordinal %", "(ordinal - 1) %"))),
        {"blocks end where they should", WALK},
        set(),
        "after a first block of one",
    ),
    "blocks one early": (
        changed((BOUNDARY, BOUNDARY.replace("ordinal %", "(ordinal + 1) %"))),
        {"blocks end where they should", WALK},
        set(),
        "one sublayer early",
    ),
    "the accumulator never reset": (
        changed(
            (RESET, "blocks = [*blocks, partial]"),
            (STEP, STEP.replace("if partial is None", f"if {BOUNDARY[3:-1].replace(' and partial is not None', '')}")),
        ),
        {"block sums start anew", WALK},
        set(),
        "never reset",
    ),
    "block means": (
        changed(
            (RESET, "blocks, partial = [*blocks, partial / self.block_sublayers], None"),
            (END, END.replace("partial]", "partial / 2]")),
        ),
        {"blocks are sums", WALK},
        set(),
        "means",
    ),
    "no partial sum": (
        changed((STEP, "output = sublayer(self.mix(blocks, ordinal))")),
        {"the running sum is a source", WALK},
        set(),
        "do not see",
    ),
    "a source of zeros": (
        changed(
            (
                STEP,
                STEP.replace("blocks if partial is None", "[*blocks, torch.zeros_like(embedding)] if partial is None"),
            )
        ),
        {"no source is empty", WALK},
        set(),
        "zeros",
    ),
    "no output mix": (
        changed((END, "return partial")),
        {"the output site mixes all sources", WALK},
        set(),
        "no mix at the output",
    ),
    "a sum at the output": (
        changed((END, "return torch.stack([*blocks, partial]).sum(0)")),
        {"the output site mixes all sources", WALK},
        set(),
        "sum of all sources",
    ),
    "no embedding at the output": (
        changed((END, END.replace("[*blocks, partial]", "[*blocks[1:], partial]"))),
        {"the output site mixes all sources", WALK},
        set(),
        "leaves out the embedding",
    ),
    "detached block sums": (
        changed((RESET, "blocks, partial = [*blocks, partial.detach()], None")),
        {"gradient through the block sums"},
        set(),
        "detached",
    ),
    "a sublayer twice": (
        changed((STEP, f"{STEP}\n            output = sublayer(output) if ordinal == 3 else output")),
        {"every sublayer runs once, in order"},
        set(),
        "[0, 1, 2, 3, 3, 4",
    ),
}
