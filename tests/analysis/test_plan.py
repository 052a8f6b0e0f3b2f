"""The numbers of a plan against hand arithmetic, and the pipeline of the paper's Figure 3 on a real model."""

from __future__ import annotations

import pytest

from attnres_cli.analysis.plan import Questions, memory_accesses, plan_arm, schedule_facts
from attnres_cli.errors import ExitCode, UserError
from tests.small import RESIDUALS, VOCAB_SIZE, small_preset


@pytest.mark.parametrize("residual", list(RESIDUALS))
def test_parts_sum_to_their_totals(residual: str) -> None:
    plan = plan_arm(small_preset(RESIDUALS[residual]), VOCAB_SIZE, Questions())
    assert sum(plan["parameters_by_part"].values()) == plan["parameters"]
    assert sum(plan["memory_bytes_by_part"].values()) == plan["memory_bytes"]
    assert sum(plan["forward_flops_per_token_by_part"].values()) == plan["forward_flops_per_token"]
    assert plan["training_flops_per_token"] == 3 * plan["forward_flops_per_token"]
    assert plan["training_flops"] == plan["training_flops_per_token"] * 20 * 64
    assert plan["pipeline"] is None
    assert plan["prefill"] is None


def test_pipeline_of_figure_3() -> None:
    """P = 4, V = 2, one AttnRes block per two ranks: eight chunks of two sublayers, blocks of four."""
    preset = small_preset({"scheme": "attnres-block", "block_sublayers": 4}, **{"model.transformer_blocks": 8})
    pipeline = plan_arm(preset, VOCAB_SIZE, Questions(pipeline=(4, 2)))["pipeline"]
    assert [step["naive"] for step in pipeline["transitions"]] == [1, 2, 2, 3, 3, 4, 4]
    assert [step["cached"] for step in pipeline["transitions"]] == [1, 2, 2, 2, 2, 2, 2]
    size = 2 * 16
    assert pipeline["naive_bytes_per_token"] == 19 * size
    assert pipeline["cached_bytes_per_token"] == 13 * size
    # Eq. 7 and 8 with N_p = 4 blocks / 8 chunks: 28 and 22 halves.
    assert pipeline["equation_naive_bytes_per_token"] == 14 * size
    assert pipeline["equation_cached_bytes_per_token"] == 11 * size
    assert pipeline["plain_bytes_per_token"] == 7 * size


def test_a_plain_residual_sends_nothing_more() -> None:
    plan = plan_arm(small_preset(), VOCAB_SIZE, Questions(pipeline=(2, 2), prefill_tokens=1000))
    assert plan["pipeline"]["naive_bytes_per_token"] == 0
    assert plan["pipeline"]["equation_naive_bytes_per_token"] == 0
    assert plan["prefill"]["total_bytes"] == 0


def test_more_chunks_than_transformer_blocks() -> None:
    with pytest.raises(UserError, match="8 chunks, more than the model's 4") as caught:
        plan_arm(small_preset(), VOCAB_SIZE, Questions(pipeline=(4, 2)))
    assert caught.value.exit_code == ExitCode.USAGE


def test_prefill_counts_what_the_scheme_keeps() -> None:
    questions = Questions(prefill_tokens=1000, tensor_parallel=4, prefill_chunk_tokens=100)
    prefill = plan_arm(small_preset(RESIDUALS["3 blocks"]), VOCAB_SIZE, questions)["prefill"]
    assert prefill["total_bytes"] == 3 * 1000 * 16 * 2
    assert prefill["bytes_per_device"] == 3 * 250 * 16 * 2
    assert prefill["chunked_bytes_per_device"] == 3 * 25 * 16 * 2


def test_access_table_takes_the_arms_blocks() -> None:
    preset = small_preset(RESIDUALS["3 blocks"])
    own = memory_accesses(preset, kept_representations=3)
    assert (own["blocks"], own["blocks_are_the_arms"]) == (3, True)
    # A plain residual (0) and Full (L) have no blocks of their own: the paper's 8, or L where the trunk is shallower.
    for kept in (0, 8):
        usual = memory_accesses(preset, kept_representations=kept)
        assert (usual["blocks"], usual["blocks_are_the_arms"]) == (8, False)
    block = next(row for row in own["rows"] if row["scheme"] == "AttnRes block")
    assert block["total_per_channel_exact"] == "49/8"  # N / S + 5 with S = 8 / 3
    assert block["total_elements"] == 49 / 8 * 16


def test_schedule() -> None:
    facts = schedule_facts(small_preset())
    assert facts["steps"] == 20
    assert facts["tokens"] == 20 * 64
    assert facts["accumulation_steps"] == 2
