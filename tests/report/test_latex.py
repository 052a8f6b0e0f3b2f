"""LaTeX: tables with booktabs, intervals in one column, and no character that LaTeX would take for a command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnres_cli.report.document import Chart, Document, Notice, render
from attnres_cli.report.renderers.latex import escape
from attnres_cli.report.table import Cell, Column, Table
from attnres_cli.report.visible import visible
from tests.golden_files import check_golden
from tests.report.groups import baseline as base
from tests.report.groups import block, comparison, full
from tests.reported_runs import HOSTILE

COLUMNS = (
    Column("arm", "arm"),
    Column("delta_nats", "Δ", "nats", "number", decimals=4, signed=True),
    Column("low_nats", "low", "95 %", "number", decimals=4, signed=True),
    Column("high_nats", "high", "95 %", "number", decimals=4, signed=True),
    Column("verdict", "verdict"),
)


def table(*rows: tuple[object, ...], caption: str = "", remarks: tuple[str, ...] = ()) -> Table:
    keys = [column.key for column in COLUMNS]
    return Table(
        "verdict", "Loss against A & B", COLUMNS,
        tuple(dict(zip(keys, row, strict=True)) for row in rows),  # type: ignore[arg-type]
        caption, remarks,
    )  # fmt: skip


def latex(*blocks: Table | Notice | Chart) -> str:
    return render(Document("report", blocks), "latex")


def body(text: str) -> list[str]:
    """The rows between \\midrule and \\bottomrule."""
    lines = [line.strip() for line in text.splitlines()]
    return lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]


def test_a_comparison(tmp_path: Path) -> None:
    from attnres_cli.report.compare import compare_document

    found = comparison([*base(tmp_path), *block(tmp_path), *full(tmp_path)])
    check_golden("compare-three-arms.tex", render(compare_document(found).only_tables(["verdict", "loss"]), "latex"))


def test_an_interval_is_one_column() -> None:
    text = latex(table(("a", -0.0139, -0.0327, 0.0049, "~"), ("b", 0.5, None, None, "better")))
    assert r"\begin{tabular}{lrcl}" in text
    assert r"arm & $\Delta$ & 95 \% interval & verdict \\" in text
    assert body(text) == [
        r"a & $-0.0139$ & {[}$-0.0327$, $+0.0049${]} & $\sim$ \\",
        r"b & $+0.5000$ & --- & better \\",
    ]


def test_caption_notes_and_label() -> None:
    text = latex(table((Cell("a", note="50 % of it"), 1.0, 0.5, 1.5, ""), caption="Δ: a_b", remarks=("a remark",)))
    assert r"\caption{Loss against A \& B. $\Delta$: a\_b.}" in text
    assert r"\label{tab:verdict}" in text
    assert r"\par\smallskip\footnotesize {[}1{]} 50 \% of it" in text
    assert r"\par\smallskip\footnotesize a remark" in text
    assert body(text)[0].startswith(r"a$^{{[}1{]}}$ &")


def test_sentences_are_paragraphs_and_charts_are_left_out() -> None:
    text = latex(Notice("NO VERDICT", ("One.", "Two.")), Chart("Drawn", ("──",)))
    assert text == "% \\usepackage{booktabs}\n\n\\paragraph{NO VERDICT}\nOne.\n\nTwo.\n"


def test_two_hyphens_stay_two() -> None:
    assert escape("--no-bench ---") == "-{}-no-bench -{}-{}-"


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_just_a_name(name: str) -> None:
    text = latex(table((name, 1.0, 0.5, 1.5, name)), Notice(name, (name,)))
    assert read_back(escape(name)) == name
    assert body(text)[0].startswith(f"{escape(name)} &")


@given(st.text())
def test_any_text_is_read_back(words: str) -> None:
    escaped = escape(words)
    assert read_back(escaped) == visible(words).replace('"', "''")
    bare = re.sub(r"\\[a-zA-Z]+\{\}|\\[{}$&#%_]|\$\\?[a-zA-Z^]+(\\circ)?\$|\$\^\\circ\$|\{[\[\]*]\}|-\{\}", "", escaped)
    assert not set(bare) & set('\\{}$&#%_^~<>|"`[]*')


def read_back(text: str) -> str:
    """What LaTeX would set, by the table of its own commands."""
    commands = {
        r"\textbackslash{}": "\\", r"\textasciicircum{}": "^", r"\textasciitilde{}": "~", r"\textless{}": "<",
        r"\textgreater{}": ">", r"\textbar{}": "|", r"\textasciigrave{}": "`", r"\dots{}": "…", r"\{": "{", r"\}": "}",
        r"\$": "$", r"\&": "&", r"\#": "#", r"\%": "%", r"\_": "_", "{[}": "[", "{]}": "]", "{*}": "*",
        r"$\Delta$": "Δ", r"$\nabla$": "∇", r"$\times$": "×", r"$\pm$": "±", r"$\le$": "≤", r"$\ge$": "≥",
        r"$\to$": "→", r"$\gets$": "←", r"$\surd$": "√", r"$\bullet$": "•", r"$\cdot$": "·", r"$\approx$": "≈",
        r"$^\circ$": "°", "-{}-": "--", "-{}": "-", "---": "—", "--": "–",
    }  # fmt: skip
    pattern = "|".join(re.escape(each) for each in sorted(commands, key=len, reverse=True))
    return re.sub(pattern, lambda match: commands[match[0]], text)
