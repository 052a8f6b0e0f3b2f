"""`attnres presets`, through the real entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.preset.reading import load_preset
from attnres_cli.residual.registry import scheme_names
from attnres_cli.shipped import shipped_folder

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def presets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `attnres presets …` in an empty folder: (exit code, stdout, stderr)."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def command(*words: str) -> tuple[int, str, str]:
        code = run(["presets", *words])
        out, err = capsys.readouterr()
        return code, out, err

    return command


def test_ls(presets: Command) -> None:
    code, out, err = presets("ls")
    assert (code, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert ["cpu-tiny", "built", "in"] in [row[:3] for row in rows]
    assert "muon" not in out
    code, out, err = presets("ls", "--overlays")
    assert (code, err) == (0, "")
    assert {"muon", "wsd", "bf16", "attnres-full", "attnres-block", "prenorm"} <= {
        line.split()[0] for line in out.split("\n") if line
    }
    assert "cpu-tiny" not in out
    assert "paper-full" not in out


def test_ls_ablations(presets: Command) -> None:
    """Every row of the paper's ablations, with the paper's own figure, and fit for 80 columns."""
    code, out, err = presets("ls", "--ablations")
    assert code == 0
    assert "--overlay NAME" in err
    assert max(map(len, out.splitlines())) <= 80
    rows = [line.split("  ") for line in out.splitlines()]
    cells = [[cell.strip() for cell in row if cell.strip()] for row in rows]
    assert ["paper-full-window-8", "Table 4", "SWA, W = 1 + 8", "1.764"] in cells
    assert ["paper-block-4", "Table 4", "Block, S = 4", "1.746"] in cells
    assert ["Fig. 6", "S = 4", "1.746"] in cells
    assert "control-frozen-zero-queries" in out
    assert "muon" not in out
    listed = {each["name"]: each for each in json.loads(presets("ls", "--ablations", "--json")[1])["presets"]}
    assert listed["paper-mhc"]["paper"] == [{"table": "Table 4", "row": "mHC", "validation_loss": 1.747}]
    assert listed["control-frozen-zero-queries"]["paper"] == []


def test_ls_schemes(presets: Command) -> None:
    code, out, err = presets("ls", "--schemes")
    assert code == 0
    assert "docs/residuals.md" in err
    assert [line.split()[0] for line in out.splitlines()[2:] if line[:1] != " "] == list(scheme_names())
    assert "h ← h + f(Norm(h))" in out
    listed = {each["name"]: each for each in json.loads(presets("ls", "--schemes", "--json")[1])["schemes"]}
    assert listed["mhc"]["citation"].endswith("arXiv 2512.24880")
    assert "sinkhorn_iterations" in listed["mhc"]["keys"]


def test_a_line_about_the_paper_that_cannot_be_read(presets: Command) -> None:
    Path("presets/ablations").mkdir(parents=True)
    Path("presets/ablations/mine.toml").write_text("# Mine.\n# paper: {table = 4}\n[residual]\nscheme = 'prenorm'\n")
    code, out, err = presets("ls", "--ablations")
    assert (code, out) == (3, "")
    assert "presets/ablations/mine.toml:2" in err
    assert "validation_loss" in err


def test_ls_announces_what_hides_what(presets: Command) -> None:
    Path("presets").mkdir()
    Path("presets/cpu-tiny.toml").write_text('# mine\nextends = "cpu-tiny"\n')
    code, out, err = presets("ls", "--json")
    assert code == 0
    assert err.startswith("note: preset 'cpu-tiny' is presets/cpu-tiny.toml; it hides ")
    listed = json.loads(out)
    assert listed["schema"] == "attnres.presets/1"
    by_name = {each["name"]: each for each in listed["presets"]}
    assert by_name["cpu-tiny"] == {
        "name": "cpu-tiny",
        "kind": "preset",
        "from": "project",
        "path": "presets/cpu-tiny.toml",
        "summary": "mine",
        "hides": [str(shipped_folder("presets") / "cpu-tiny.toml")],
    }
    for words in (["show", "cpu-tiny"], ["show", "cpu-tiny", "--resolved"], ["diff", "cpu-tiny", "cpu-small"]):
        assert presets(*words)[2].count("note: preset 'cpu-tiny'") == 1, words


def test_show_prints_the_file_as_it_is(presets: Command) -> None:
    assert presets("show", "cpu-tiny") == (0, (shipped_folder("presets") / "cpu-tiny.toml").read_text(), "")
    assert presets("show", "muon")[1] == (shipped_folder("presets") / "overlays/muon.toml").read_text()
    Path("broken.toml").write_text("this is no preset")
    assert presets("show", "broken.toml")[1] == "this is no preset\n"


def test_show_resolved_can_be_saved_and_loaded(presets: Command) -> None:
    options = ("--overlay", "muon", "--residual", "attnres-block", "--set", "residual.num_blocks=2")
    code, out, _ = presets("show", "cpu-tiny", *options)
    assert code == 0
    Path("saved.toml").write_text(out)
    expected = load_preset("cpu-tiny", overlays=["muon"], residual="attnres-block", sets=["residual.num_blocks=2"])
    assert load_preset("saved.toml") == expected
    assert out.startswith("# cpu-tiny --overlay muon --residual attnres-block --set residual.num_blocks=2")
    Path("plain.toml").write_text(presets("show", "cpu-tiny", "--resolved")[1])
    assert load_preset("plain.toml") == load_preset("cpu-tiny")


def test_show_json(presets: Command) -> None:
    code, out, _ = presets("show", "cpu-tiny", "--set", "train.seed=3", "--json")
    shown = json.loads(out)
    preset = load_preset("cpu-tiny", sets=["train.seed=3"])
    assert (code, shown["schema"], shown["values"], shown["digest"]) == (
        0,
        "attnres.preset/1",
        preset.to_dict(),
        preset.digest(),
    )
    assert shown["origins"]["train.seed"] == "--set train.seed=3"
    assert shown["derived"]["steps"] == preset.steps
    assert json.loads(presets("show", "cpu-tiny", "--json")[1])["text"] == load_preset("cpu-tiny").source_text
    assert json.loads(presets("show", "muon", "--json")[1])["values"] == {"train": {"optimizer": "muon"}}


def test_show_origins(presets: Command) -> None:
    Path("my.toml").write_text('extends = "cpu-tiny"\n[train]\nseed = 4\n')
    _, out, _ = presets("show", "my.toml", "--origins", "--set", "train.threads=1")
    origins = {line.split()[0]: line.split()[-1] for line in out.splitlines() if "." in line.split()[0]}
    assert origins["train.seed"] == "my.toml:3"
    assert origins["train.threads"] == "train.threads=1"
    assert "cpu-tiny.toml:" in origins["model.d_model"]


def test_cp(presets: Command) -> None:
    code, out, err = presets("cp", "cpu-tiny", "new/my.toml")
    assert (code, out) == (0, "new/my.toml\n")
    assert "attnres presets check new/my.toml" in err
    assert Path("new/my.toml").read_text() == (shipped_folder("presets") / "cpu-tiny.toml").read_text()
    Path("new/my.toml").write_text("mine")
    code, out, err = presets("cp", "cpu-tiny", "new/my.toml")
    assert (code, out, Path("new/my.toml").read_text()) == (3, "", "mine")
    assert "exists already" in err
    assert "try: attnres presets cp cpu-tiny new/my-2.toml" in err
    assert json.loads(presets("cp", "cpu-tiny", "new", "--json")[1])["path"] == "new/cpu-tiny.toml"


def test_check_says_what_each_file_is(presets: Command) -> None:
    presets("cp", "cpu-tiny", "my.toml")
    Path("over.toml").write_text("[train]\nseed = 1\n")
    code, out, err = presets("check", "my.toml", "over.toml", "cpu-small", "muon")
    assert (code, err) == (0, "")
    shipped = shipped_folder("presets")
    assert out.splitlines() == [
        "my.toml: preset, no errors",
        "over.toml: overlay, no errors",
        f"cpu-small: preset, no errors ({shipped / 'cpu-small.toml'})",
        f"muon: overlay, no errors ({shipped / 'overlays/muon.toml'})",
    ]


def test_check_says_which_file_a_name_led_to_and_what_that_hides(presets: Command) -> None:
    Path("presets").mkdir()
    Path("presets/cpu-tiny.toml").write_text('extends = "cpu-tiny"\n')
    Path("presets/mine.toml").write_text('extends = "cpu-tiny"\n[train]\nseed = -1\n')
    hidden = shipped_folder("presets") / "cpu-tiny.toml"
    note = f"note: preset 'cpu-tiny' is presets/cpu-tiny.toml; it hides {hidden}.\n"
    assert presets("check", "cpu-tiny") == (0, "cpu-tiny: preset, no errors (presets/cpu-tiny.toml)\n", note)
    code, out, err = presets("check", "cpu-tiny", "mine", "--json")  # a parent's is announced, too, and once
    files = json.loads(out)["files"]
    assert (code, err) == (3, note)
    assert [each["notes"] for each in files] == [[note[len("note: ") : -1]]] * 2
    assert presets("check", "mine")[2].startswith(f"{note}error: ")


def test_check_of_a_preset_that_extends_itself(presets: Command) -> None:
    Path("presets").mkdir()
    Path("presets/self.toml").write_text('extends = "self"\n')
    assert presets("check", "self") == (
        3,
        "",
        "error: presets/self.toml extends itself in a circle: it hides no other preset 'self'.\n"
        "  where: presets/self.toml:1\n  expected: another preset, or no extends\n",
    )


@pytest.mark.parametrize(
    ("section", "what", "nearest"),
    [
        ('[data]\ncorpus = "stdlb"\n', 'There is no corpus "stdlb".', "stdlib"),
        ('[data]\ncorpus = "synthetic"\ntask = "hpos"\n', '[data] task = "hpos" is not a choice.', "hops"),
        ('[residual]\nscheme = "prenrom"\n', 'There is no residual scheme "prenrom".', "prenorm"),
    ],
)
def test_check_of_a_section_of_an_unknown_form_tells_its_other_errors(
    presets: Command, section: str, what: str, nearest: str
) -> None:
    Path("mine.toml").write_text(f'extends = "cpu-tiny"\n{section}nested.key = 3\nlenth = 3\nnum_blcks = 3\n')
    code, out, _ = presets("check", "mine.toml", "--json")
    errors = json.loads(out)["files"][0]["errors"]
    assert code == 3
    assert (errors[0]["what"], errors[0]["nearest"]) == (what, nearest)
    unknown = [each["what"].partition("'")[2].partition("'")[0] for each in errors[1:]]
    assert unknown == ["nested", "lenth", "num_blcks"]
    found = {each["nearest"] for each in errors[1:]}
    assert ("length" if "data" in section else "num_blocks") in found


def test_check_reports_every_error_of_every_file(presets: Command) -> None:
    Path("a.toml").write_text('extends = "cpu-tiny"\n[train]\nlearnig_rate = 1\nseed = -1\n')
    Path("b.toml").write_text("[train]\nseed = yes\n")
    Path("c.toml").write_text("[model]\nnum_heds = 3\n[residual]\nnum_blocks = 0\n")
    code, out, err = presets("check", "a.toml", "b.toml", "cpu-tiny", "c.toml", "cpu-tniy")
    assert (code, out) == (3, f"cpu-tiny: preset, no errors ({shipped_folder('presets') / 'cpu-tiny.toml'})\n")
    places = [line.strip() for line in err.splitlines() if "where:" in line]
    wrong = ("a.toml:3", "a.toml:4", "b.toml:2", "c.toml:2", "c.toml:4", "FILE")
    assert places == [f"where: {place}" for place in wrong]
    assert "nearest: learning_rate" in err
    assert 'expected: seed = "yes"' in err
    assert "nearest: cpu-tiny" in err
    assert "Traceback" not in err
    code, out, err = presets("check", "a.toml", "cpu-tiny", "--json")
    checked: dict[str, Any] = json.loads(out)
    assert (code, err) == (3, "")
    assert [len(each["errors"]) for each in checked["files"]] == [2, 0]
    assert checked["files"][0]["errors"][0]["nearest"] == "learning_rate"


def test_check_looks_for_files_beside_every_other_error(presets: Command) -> None:
    Path("here.txt").write_text("text")
    Path("mine.toml").write_text(
        'extends = "cpu-tiny"\n[data]\ncorpus = "text"\n'
        'files = ["gone.txt", "here.txt", "none/*.txt"]\ntokenizer = "my.tiktoken"\n[train]\nseed = -1\n'
    )
    code, out, err = presets("check", "mine.toml", "--json")
    errors = json.loads(out)["files"][0]["errors"]
    assert code == 3
    assert [each["where"] for each in errors] == ["mine.toml:4", "mine.toml:4", "mine.toml:5", "mine.toml:7"]
    assert "there is no file" in errors[0]["what"]
    assert "no file matches" in errors[1]["what"]
    assert f"looked in {Path.cwd() / 'my.tiktoken'}" in errors[2]["expected"]
    assert run(["train", "mine.toml", "--set", "train.seed=0"]) == 3


@pytest.mark.parametrize(
    ("data", "line", "what"),
    [
        ('corpus = "jsonl"\nfiles = ["gone.jsonl"]\n', 4, "there is no file"),
        ('corpus = "tokens"\nvocab_size = 9\nfiles = ["gone.bin"]\n', 5, "there is no file"),
        (
            'corpus = "tokens"\nvocab_size = 9\nfiles = ["there.bin"]\nvalidation_files = ["gone.bin"]\n',
            6,
            "data.validation_files: there is no file",
        ),
        ('corpus = "stdlib"\npackages = ["no_such_package"]\n', 4, "no installed package 'no_such_package'"),
        ('tokenizer = "gpt2"\n', 3, "is not on this machine"),
        ('tokenizer = "gpt3"\n', 3, 'There is no tokenizer "gpt3".'),
    ],
)
def test_check_finds_every_kind_of_input_missing(
    presets: Command, data: str, line: int, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "no-vocabularies"))
    Path("there.bin").write_bytes(b"\0" * 64)
    Path("mine.toml").write_text(f'extends = "cpu-tiny"\n[data]\n{data}')
    code, _, err = presets("check", "mine.toml")
    assert code == 3
    assert err.startswith("error: ")
    assert what in err
    assert [each.strip() for each in err.splitlines() if "where:" in each] == [f"where: mine.toml:{line}"]


def test_check_of_an_overlay_that_says_all_of_the_data_looks_for_its_files(presets: Command) -> None:
    Path("over.toml").write_text('[data]\ncorpus = "text"\nfiles = ["gone.txt"]\n')
    code, _, err = presets("check", "over.toml")
    assert (code, "where: over.toml:3" in err) == (3, True)
    Path("gone.txt").write_text("back again")
    assert presets("check", "over.toml") == (0, "over.toml: overlay, no errors\n", "")


def test_check_of_an_overlay_names_an_unknown_tokenizer_once(presets: Command) -> None:
    """Whether its [data] section is judged as that of any corpus, of one, or of none that there is."""
    Path("gone.txt").write_text("here")
    for first in ("", 'corpus = "text"\nfiles = ["gone.txt"]\n', 'corpus = "txet"\n'):
        Path("over.toml").write_text(f'[data]\n{first}tokenizer = "byte"\n')
        code, out, _ = presets("check", "over.toml", "--json")
        errors = [each for each in json.loads(out)["files"][0]["errors"] if "tokenizer" in each["what"]]
        assert (code, [each["nearest"] for each in errors]) == (3, ["bytes"])
        assert errors[0]["where"] == f"over.toml:{2 + first.count(chr(10))}"


def test_check_prepares_nothing(presets: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTNRES_CACHE", str(tmp_path / "cache"))
    assert presets("check", "cpu-tiny", "cpu-small")[0] == 0
    assert not (tmp_path / "cache").exists()


def test_diff(presets: Command) -> None:
    code, out, _ = presets("diff", "cpu-tiny", "cpu-deep")
    assert code == 0
    lines = {line.split()[0]: line.split()[1:] for line in out.splitlines()[2:]}
    assert lines["model.transformer_blocks"] == ["2", "24"]
    assert "model.norm_epsilon" not in lines
    assert presets("diff", "cpu-tiny", "cpu-tiny")[:2] == (0, "no differences\n")
    differences = json.loads(presets("diff", "cpu-tiny", "cpu-deep", "--json")[1])
    assert {"key": "model.transformer_blocks", "a": 2, "b": 24} in differences["differences"]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["show", "cpu-tny"], 3, "nearest: cpu-tiny"),
        (["show", "muon", "--resolved"], 3, "'muon' is an overlay"),
        (["diff", "cpu-tiny", "muon"], 3, "'muon' is an overlay"),
        (["show", "cpu-tiny", "--overlay", "cpu-small"], 3, "'cpu-small' is a whole preset"),
        (["show", "cpu-tiny", "--residual", "attnres"], 3, "nearest: attnres-"),
        (["show", "cpu-tiny", "--set", "seed=1"], 3, "expected: --set train.seed=1"),
        (["show", "nowhere/x.toml"], 3, "no file nowhere/x.toml"),
        (["cp", "cpu-tiny", "my"], 3, "expected: my.toml"),
        (["cp", "cpu-tiny"], 2, "DEST"),
        (["check"], 2, "FILE"),
        (["lss"], 2, "nearest: ls"),
        (["ls", "--overlay"], 2, "--overlays"),
    ],
)
def test_wrong_commands(presets: Command, words: list[str], code: int, message: str) -> None:
    found, out, err = presets(*words)
    assert (found, out) == (code, "")
    assert message in err
    assert "Traceback" not in err


def environment_without_torch(tmp_path: Path) -> dict[str, str]:
    """An environment in which importing torch (or pydantic, which is slow, too) ends the program."""
    for name in ("torch", "pydantic"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} was imported')\n")
    root = str(shipped_folder("presets").parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), root])}


@pytest.mark.parametrize(
    "words", [["ls"], ["ls", "--overlays", "--json"], ["show", "cpu-tiny"], ["cp", "cpu-tiny", "my.toml"]]
)
def test_without_torch(tmp_path: Path, words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "attnres_cli", "presets", *words],
        cwd=tmp_path, env=environment_without_torch(tmp_path), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize(
    ("line", "expected", "absent"),
    [
        ("attnres presets show cpu-", {"cpu-tiny", "cpu-small", "cpu-deep"}, {"gpu-124m", "muon"}),
        ("attnres presets show mu", {"muon"}, {"cpu-tiny"}),
        ("attnres presets show cpu-tiny --overlay attn", {"attnres-full", "attnres-block"}, {"muon"}),
        ("attnres presets diff cpu-tiny gpu", {"gpu-124m", "gpu-350m"}, {"cpu-tiny"}),
        ("attnres presets check loc", {"local"}, {"cpu-tiny"}),
    ],
)  # fmt: skip
def test_completion_without_torch(tmp_path: Path, line: str, expected: set[str], absent: set[str]) -> None:
    (tmp_path / "presets").mkdir()
    (tmp_path / "presets/local.toml").write_text("")
    words = line.split()
    completing = {"_ATTNRES_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "from attnres_cli.cli.app import main; import sys; sys.argv = ['attnres']; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**environment_without_torch(tmp_path), **completing},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    completed = set(done.stdout.split())
    assert expected <= completed
    assert not absent & completed


def test_a_partial_preset_among_the_presets_is_told_how_to_be_put_on(presets: Command) -> None:
    """What one error says to try does not lead to the next."""
    Path("presets").mkdir()
    Path("presets/part.toml").write_text("[train]\nseed = 5\n")
    Path("presets/more.toml").write_text('extends = "part"\n[train]\nseed = 6\n')
    for name in ("part", "more"):
        code, _, err = presets("show", name, "--resolved")
        assert (code, f"try: cpu-small --overlay presets/{name}.toml" in err) == (3, True)
        code, _, err = presets("show", "cpu-tiny", "--overlay", name)
        assert (code, "whole preset" in err) == (3, False)
        assert f"try: --overlay presets/{name}.toml, or move it to presets/overlays/{name}.toml" in err
        assert presets("show", "cpu-tiny", "--overlay", f"presets/{name}.toml")[0] == 0
    Path("presets/whole.toml").write_text('extends = "cpu-tiny"\n')
    assert "'whole' is a whole preset" in presets("show", "cpu-tiny", "--overlay", "whole")[2]
    Path("presets/overlays").mkdir()
    Path("presets/part.toml").rename("presets/overlays/part.toml")
    assert presets("show", "cpu-tiny", "--overlay", "part")[0] == 0


@pytest.mark.parametrize("text", ["", "# not yet\n", "[train]\n"])
def test_a_file_that_says_nothing_is_refused_wherever_it_is_asked_for(presets: Command, text: str) -> None:
    Path("empty.toml").write_text(text)
    for words in (
        ["check", "empty.toml"],
        ["show", "cpu-tiny", "--overlay", "empty.toml"],
        ["show", "empty.toml", "--resolved"],
    ):
        code, _, err = presets(*words)
        assert code == 3
        assert "error: empty.toml says nothing." in err
        assert "where: empty.toml\n" in err
        assert "expected: sections with keys" in err
