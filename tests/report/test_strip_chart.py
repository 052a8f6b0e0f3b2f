"""The strip chart: a dot for every pair, in at most 80 columns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.report.strip_chart import DOT, ZERO, Strip, strip_chart


def drawn(lines: tuple[str, ...]) -> list[str]:
    return [line[5:] for line in lines]


def test_dots_interval_and_axis() -> None:
    assert strip_chart([Strip("arm", (-0.04, -0.02, -0.02, 0.01), -0.0175, -0.05, 0.015)], width_columns=50) == (
        "arm         •            2             │      •",
        "     ├─────────────────────┼─────────────────────┤",
        "     ──────────────────────────────────┴──────────",
        "     -0.0500                           0   +0.0150",
    )


def test_zero_is_on_the_scale_though_no_pair_is_near() -> None:
    left, *_ = drawn(strip_chart([Strip("arm", (0.5, 0.6), 0.55)]))
    assert left.index(ZERO) == 0
    assert left.index(DOT) > 50
    assert len(left) == 76 - 5


def test_all_at_zero_can_be_drawn() -> None:
    line = strip_chart([Strip("arm", (0.0, 0.0, 0.0), 0.0, 0.0, 0.0)])[0]
    assert line.rstrip().endswith("3")


def test_nothing_to_draw_is_said() -> None:
    assert strip_chart([]) == ("nothing to draw: no pair has ended",)


def test_a_long_label_stands_on_a_line_of_its_own() -> None:
    label = "a-scheme-with-a-long-name num_blocks=4 query_lr_factor=0.5"
    lines = strip_chart([Strip(label, (0.1,), 0.1), Strip("short", (0.2,), 0.2)])
    assert lines[0] == label
    assert lines[1].startswith(" " * 26)
    assert lines[2].startswith("short ")


number = st.floats(-1e3, 1e3)


label = st.text("abc-_= ", min_size=1, max_size=90)
arm = st.tuples(label, st.lists(number, min_size=1, max_size=40), number, number)


@given(st.lists(arm, min_size=1, max_size=6), st.integers(50, 120))
def test_every_pair_is_in_the_chart_and_every_line_fits(
    arms: list[tuple[str, list[float], float, float]], width: int
) -> None:
    strips = [
        Strip(label, tuple(values), sum(values) / len(values), min(low, high, *values), max(low, high, *values))
        for label, values, low, high in arms
    ]
    lines = strip_chart(strips, width_columns=width)
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if "├" not in line and "┴" not in line]
    margin = min(24, max(len(strip.label) for strip in strips)) + 2
    assert sum(any(character in f"{DOT}#23456789" for character in row[margin:]) for row in rows) >= len(strips)
