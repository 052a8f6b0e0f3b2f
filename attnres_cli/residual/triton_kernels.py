"""The depth-attention operator as GPU kernels; `ops/triton.py` launches them.

One program has a whole row of one token in registers, [BLOCK] with BLOCK the next power of two of WIDTH, and loops over
its sources (or consumers). How many there are, and where they lie, comes from a table of addresses, so that one
compilation serves a model of any depth, and nothing is ever stacked. All arithmetic is in float32.
"""

from __future__ import annotations

import triton
import triton.language as tl

# How a table says what an address points at.
FLOAT32 = tl.constexpr(0)
BFLOAT16 = tl.constexpr(1)
FLOAT16 = tl.constexpr(2)

SOURCE_FIELDS = tl.constexpr(3)  # source, code of its dtype, its 1/rms
CONSUMER_FIELDS = tl.constexpr(
    6
)  # gradient of the mixture, its product with the mixture, query, log_total, logits, stride


@triton.jit
def pointer_to(address, DTYPE: tl.constexpr, ALIGNED: tl.constexpr):
    pointer = address.to(tl.pointer_type(DTYPE))
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)  # an address says nothing of itself, and then numbers are loaded singly
    return pointer


@triton.jit
def number_at(address, index):
    return tl.load(pointer_to(address, tl.float32, False) + index)


@triton.jit
def row_at(address, code, at, inside, ALIGNED: tl.constexpr):
    """A row of a source of any dtype, widened: [BLOCK]."""
    if code == FLOAT32:
        row = tl.load(pointer_to(address, tl.float32, ALIGNED) + at, mask=inside, other=0.0)
    elif code == BFLOAT16:
        row = tl.load(pointer_to(address, tl.bfloat16, ALIGNED) + at, mask=inside, other=0.0).to(tl.float32)
    else:
        row = tl.load(pointer_to(address, tl.float16, ALIGNED) + at, mask=inside, other=0.0).to(tl.float32)
    return row


@triton.jit
def inverse_rms_of(row, epsilon, WIDTH: tl.constexpr):
    return tl.rsqrt(tl.sum(row * row) / WIDTH + epsilon)


@triton.jit
def sum_of(first, second, at, inside):
    """first + second where there is a second: [BLOCK]."""
    row = tl.load(first + at, mask=inside, other=0.0).to(tl.float32)
    if second is not None:
        row += tl.load(second + at, mask=inside, other=0.0).to(tl.float32)
    return row


@triton.jit
def store_normed(row, gain, normed, normed_scale, token, at, column, inside, epsilon, WIDTH: tl.constexpr):
    scale = inverse_rms_of(row, epsilon, WIDTH)
    factor = tl.load(gain + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(normed + at, (row * scale * factor).to(normed.dtype.element_ty), mask=inside)
    tl.store(normed_scale + token, scale)


@triton.jit(do_not_specialize=["finished"], do_not_specialize_on_alignment=["ahead_peak", "ahead_total"])
def site_kernel(
    newest,
    update,  # None: the newest source is there already
    table,
    finished,
    ahead_mixed,  # None, and so the next two: nothing was looked up ahead
    ahead_peak,
    ahead_total,
    query,
    gain,
    value,  # None without update
    scale,
    logits,
    log_total,
    mixture,  # None where the mixture is the newest source itself
    normed,
    normed_scale,
    epsilon,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """Newest source, its 1/rms, all logits, softmax over depth, weighted sum and PreNorm. Grid: (tokens)."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    at = token * WIDTH + column

    row = sum_of(newest, update, at, inside)
    if update is not None:
        tl.store(value + at, row, mask=inside)
    direction = tl.load(query + column, mask=inside, other=0.0)
    inverse_rms = inverse_rms_of(row, epsilon, WIDTH)
    tl.store(scale + token, inverse_rms)

    # Online softmax: weights relative to the highest logit so far.
    own_logits = logits + token * (finished + 1)
    peak = inverse_rms * tl.sum(row * direction)
    tl.store(own_logits + finished, peak)
    total = tl.full((), 1.0, tl.float32)
    mixed = row
    for source in range(finished):
        entry = table + source * SOURCE_FIELDS
        row = row_at(tl.load(entry), tl.load(entry + 1), at, inside, ALIGNED)
        logit = number_at(tl.load(entry + 2), token) * tl.sum(row * direction)
        tl.store(own_logits + source, logit)
        higher = tl.maximum(peak, logit)
        shrink, weight = tl.exp(peak - higher), tl.exp(logit - higher)
        mixed = mixed * shrink + row * weight
        total = total * shrink + weight
        peak = higher
    if ahead_mixed is not None:
        other = tl.load(ahead_peak + token)
        higher = tl.maximum(peak, other)
        shrink, weight = tl.exp(peak - higher), tl.exp(other - higher)
        mixed = mixed * shrink + tl.load(ahead_mixed + at, mask=inside, other=0.0) * weight
        total = total * shrink + tl.load(ahead_total + token) * weight
        peak = higher
    tl.store(log_total + token, peak + tl.log(total))
    mixed *= tl.div_rn(1.0, total)  # exactly 1 over a single source
    if mixture is not None:
        tl.store(mixture + at, mixed, mask=inside)
    store_normed(mixed, gain, normed, normed_scale, token, at, column, inside, epsilon, WIDTH)


@triton.jit(do_not_specialize=["finished", "queries", "tokens"])
def look_ahead_kernel(
    table,
    finished,
    query,
    queries,
    tokens,
    mixed,
    peak,
    total,
    logits,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    GROUP: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """Phase one: GROUP queries at a time in one pass over the finished sources. Grid: (tokens, groups of queries)."""
    token = tl.program_id(0).to(tl.int64)
    which = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    column = tl.arange(0, BLOCK)
    wanted = which < queries
    inside = column < WIDTH
    both = wanted[:, None] & inside[None, :]

    directions = tl.load(query + which[:, None] * WIDTH + column[None, :], mask=both, other=0.0)
    place = which.to(tl.int64) * tokens + token  # [GROUP]
    peaks = tl.full((GROUP,), float("-inf"), tl.float32)
    totals = tl.zeros((GROUP,), tl.float32)
    mixtures = tl.zeros((GROUP, BLOCK), tl.float32)
    for source in range(finished):
        entry = table + source * SOURCE_FIELDS
        row = row_at(tl.load(entry), tl.load(entry + 1), token * WIDTH + column, inside, ALIGNED)
        scale = number_at(tl.load(entry + 2), token)
        logit = scale * tl.sum(row[None, :] * directions, axis=1)
        tl.store(logits + place * finished + source, logit, mask=wanted)
        higher = tl.maximum(peaks, logit)
        shrink, weight = tl.exp(peaks - higher), tl.exp(logit - higher)
        mixtures = mixtures * shrink[:, None] + row[None, :] * weight[:, None]
        totals = totals * shrink + weight
        peaks = higher
    tl.store(mixed + place[:, None] * WIDTH + column[None, :], mixtures, mask=both)
    tl.store(peak + place, peaks, mask=wanted)
    tl.store(total + place, totals, mask=wanted)


@triton.jit
def add_norm_kernel(
    stream,
    update,  # None: only the norm
    gain,
    value,  # None without update
    normed,
    normed_scale,
    epsilon,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """The plain residual's site. Grid: (tokens)."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    at = token * WIDTH + column
    row = sum_of(stream, update, at, inside)
    if update is not None:
        tl.store(value + at, row, mask=inside)
    store_normed(row, gain, normed, normed_scale, token, at, column, inside, epsilon, WIDTH)


@triton.jit(do_not_specialize=["tokens", "chunk"])
def norm_backward_kernel(
    grad,
    normed_input,
    normed_scale,
    gain,
    carry,  # None: nothing to add
    grad_input,
    grad_dot_input,
    gain_sums,
    tokens,
    chunk,
    epsilon,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """PreNorm backwards over `chunk` neighbouring tokens, whose share in the gain's gradient is one row of
    `gain_sums`. Grid: (chunks)."""
    first = tl.program_id(0).to(tl.int64) * chunk
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    factor = tl.load(gain + column, mask=inside, other=0.0).to(tl.float32)
    gain_sum = tl.zeros((BLOCK,), tl.float32)
    for step in range(tl.minimum(chunk, tokens - first)):
        token = first + step
        at = token * WIDTH + column
        scale = tl.load(normed_scale + token)
        unit = tl.load(normed_input + at, mask=inside, other=0.0).to(tl.float32) * scale
        row = tl.load(grad + at, mask=inside, other=0.0).to(tl.float32)
        gain_sum += row * unit
        row *= factor
        projection = tl.sum(row * unit)
        # The gradient times the input is projection (1 - mean unit²), and 1 - mean unit² = epsilon scale².
        tl.store(grad_dot_input + token, projection * epsilon * scale * scale)
        row = scale * (row - unit * (projection / WIDTH))
        if carry is not None:
            row += tl.load(carry + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(grad_input + at, row, mask=inside)
    tl.store(gain_sums + tl.program_id(0).to(tl.int64) * WIDTH + column, gain_sum, mask=inside)


@triton.jit(do_not_specialize=["consumers"])
def source_backward_kernel(
    value,
    scale,
    table,
    consumers,
    carry,  # None: nothing to add
    grad_value,
    coefficients,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
    ALIGNED: tl.constexpr,
):
    """A source's whole gradient, pulled from all its consumers, and the coefficient (gradient of the logit × 1/rms)
    of its row in every consumer's query gradient: [tokens, consumers]. Grid: (tokens)."""
    token = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < WIDTH
    at = token * WIDTH + column
    row = tl.load(value + at, mask=inside, other=0.0).to(tl.float32)
    inverse_rms = tl.load(scale + token)
    if carry is not None:
        pulled = tl.load(carry + at, mask=inside, other=0.0).to(tl.float32)
    else:
        pulled = tl.zeros((BLOCK,), tl.float32)
    radial = tl.full((), 0.0, tl.float32)  # Σ gradient of the logit × logit
    for consumer in range(consumers):
        entry = table + consumer * CONSUMER_FIELDS
        grad_mixed = tl.load(pointer_to(tl.load(entry), tl.float32, ALIGNED) + at, mask=inside, other=0.0)
        grad_dot_mixed = number_at(tl.load(entry + 1), token)
        direction = tl.load(pointer_to(tl.load(entry + 2), tl.float32, ALIGNED) + column, mask=inside, other=0.0)
        log_total = number_at(tl.load(entry + 3), token)
        logit = number_at(tl.load(entry + 4), token * tl.load(entry + 5))
        weight = tl.exp(logit - log_total)
        slope = weight * (tl.sum(grad_mixed * row) - grad_dot_mixed)
        pulled += weight * grad_mixed + (slope * inverse_rms) * direction
        radial += slope * logit
        tl.store(coefficients + token * consumers + consumer, slope * inverse_rms)
    pulled -= (inverse_rms * inverse_rms * radial / WIDTH) * row
    tl.store(grad_value + at, pulled, mask=inside)


@triton.jit(do_not_specialize=["tokens", "consumers", "chunk"])
def query_gradient_kernel(
    value,
    coefficients,
    query_sums,
    tokens,
    consumers,
    chunk,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
    QUERIES: tl.constexpr,
    TOKENS: tl.constexpr,
):
    """coefficientsᵀ @ value over `chunk` tokens (a multiple of TOKENS), in true float32: the library's matrix product
    would take TF32 where training allows that. Grid: (chunks, blocks of columns, blocks of queries)."""
    share = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    which = tl.program_id(2) * QUERIES + tl.arange(0, QUERIES)
    inside = column < WIDTH
    wanted = which < consumers
    sums = tl.zeros((QUERIES, COLUMNS), tl.float32)
    for step in range(0, chunk, TOKENS):
        token = share * chunk + step + tl.arange(0, TOKENS)
        there = token < tokens
        rows = tl.load(
            value + token[:, None] * WIDTH + column[None, :], mask=there[:, None] & inside[None, :], other=0.0
        )
        factors = tl.load(
            coefficients + token[None, :] * consumers + which[:, None], mask=wanted[:, None] & there[None, :], other=0.0
        )
        sums = tl.dot(factors, rows.to(tl.float32), sums, input_precision="ieee")
    place = (share * consumers + which)[:, None] * WIDTH + column[None, :]
    tl.store(query_sums + place, sums, mask=wanted[:, None] & inside[None, :])
