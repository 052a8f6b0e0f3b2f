"""`attnres verify` through the real entry point: what it prints, its exit codes, and what it says of wrong input."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from attnres_cli.cli.app import run
from attnres_cli.errors import ExitCode
from tests.cli.starting import on_a_terminal

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def small_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the checks find is tested in tests/verify/; here it is enough that they run."""
    from attnres_cli.verify.checks import backends, oracle, two_phase

    monkeypatch.setattr(oracle, "STEPS", 2)
    monkeypatch.setattr(two_phase, "BATCH", (2, 8))
    monkeypatch.setattr(two_phase, "SHAPES", two_phase.SHAPES[:1])
    monkeypatch.setattr(backends, "SHAPES", backends.SHAPES[:2])


def verify_json(capsys: Capture, *words: str, code: int = 0) -> dict[str, Any]:
    assert run(["verify", *words, "--json"]) == code
    loaded: dict[str, Any] = json.loads(capsys.readouterr().out)
    return loaded


def statuses(payload: dict[str, Any], name: str) -> dict[str, str]:
    (check,) = [each for each in payload["checks"] if each["name"] == name]
    return {finding["aspect"]: finding["status"] for finding in check["findings"]}


@pytest.mark.usefixtures("small_checks")
def test_without_a_preset(capsys: Capture) -> None:
    assert run(["verify"]) == ExitCode.DONE
    streams = capsys.readouterr()
    assert streams.out.startswith("Residual schemes: all hold\n")
    for words in ("oracle", "equations", "two-phase against direct", "cached decoding", "queries frozen", "n/a"):
        assert words in streams.out
    assert "sites.0.query, sites.0.key_gain" in streams.out  # provably dead ones are named
    assert "prenorm: not a softmax over depth" in streams.out
    assert "1 2 2 2 3 3 3 4 4 4 5, output last" in streams.out
    assert "\x1b" not in streams.out
    assert "FAILS" not in streams.out
    assert "oracle … done" in streams.err


@pytest.mark.usefixtures("small_checks")
def test_json(capsys: Capture) -> None:
    payload = verify_json(capsys, "cpu-tiny", "--residual", "attnres-block", "--set", "residual.num_blocks=3")
    assert payload["schema"] == "attnres.verify/1"
    assert (payload["preset"], payload["schemes"], payload["failed"]) == ("cpu-tiny", ["attnres-block"], 0)
    assert payload["trunk"]["transformer_blocks"] == 2
    assert set(payload["checks"][0]) == {"name", "title", "seconds", "findings"}
    assert set(payload["checks"][0]["findings"][0]) == {
        "aspect", "status", "subject", "measured", "allowed", "detail",
    }  # fmt: skip
    (equations,) = [check for check in payload["checks"] if check["name"] == "equations"]
    assert {finding["status"] for finding in equations["findings"]} == {"ok"}
    (sources,) = [check for check in payload["checks"] if check["name"] == "sources"]
    assert sources["findings"][0]["detail"] == "1 2 3 4 4, output last"
    assert {row["result"] for row in payload["tables"]["checks"]["rows"]} == {"ok", "shown", "does not apply"}


@pytest.mark.usefixtures("small_checks")
@pytest.mark.parametrize(
    ("preset", "sublayers", "heads"), [("cpu-deep", 10, (4, 4)), ("gpu-350m", 10, (4, 4)), ("cpu-tiny", 4, (4, 4))]
)
def test_a_presets_trunk_is_cut_down(preset: str, sublayers: int, heads: tuple[int, int], capsys: Capture) -> None:
    trunk = verify_json(capsys, preset)["trunk"]
    assert (2 * trunk["transformer_blocks"], trunk["d_model"]) == (sublayers, 32)
    assert (trunk["num_heads"], trunk["num_kv_heads"]) == heads


@pytest.mark.usefixtures("small_checks")
def test_a_trunk_stays_deep_enough_for_its_blocks(capsys: Capture) -> None:
    words = ("cpu-deep", "--residual", "attnres-block", "--set", "residual.num_blocks=12")
    assert verify_json(capsys, *words)["trunk"]["transformer_blocks"] == 8


@pytest.mark.usefixtures("small_checks")
def test_what_does_not_apply_is_said(capsys: Capture) -> None:
    payload = verify_json(capsys, "cpu-tiny", "--residual", "rezero")
    assert set(statuses(payload, "equations").values()) == {"does not apply"}
    assert set(statuses(payload, "causality").values()) == {"ok"}
    for check in payload["checks"]:
        for finding in check["findings"]:
            assert finding["status"] != "does not apply" or finding["detail"]


@pytest.mark.usefixtures("small_checks")
def test_a_wrong_scheme_fails(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnres_cli.residual.depth_attention import DepthAttention

    monkeypatch.setattr(DepthAttention, "close", lambda self, state, final_norm: final_norm(state[-2]))
    monkeypatch.setattr(DepthAttention, "fused_pass", lambda self, embedding: None)
    assert run(["verify", "cpu-tiny", "--residual", "attnres-full"]) == ExitCode.UNEXPECTED
    streams = capsys.readouterr()
    assert streams.out.startswith("attnres-full: FAILS\n")
    assert "What fails" in streams.out
    assert "oracle, logits at step 0 (attnres-full): " in streams.out
    assert "it departs from Eq. 1-4" in streams.out
    assert "oracle … FAILS" in streams.err


@pytest.mark.usefixtures("small_checks")
def test_a_check_that_breaks_down_is_a_failure(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from attnres_cli.residual.depth_attention import DepthAttention

    def broken(self: Any, state: Any, ordinal: int) -> None:
        raise ZeroDivisionError("no such thing")

    monkeypatch.setattr(DepthAttention, "depth_weights", broken)
    assert run(["verify", "cpu-tiny", "--residual", "attnres-full"]) == ExitCode.UNEXPECTED
    streams = capsys.readouterr()
    assert "ZeroDivisionError at test_verify.py:" in streams.out
    assert "Traceback" not in streams.out + streams.err


def test_the_number_of_threads_is_what_it_was() -> None:
    import torch

    before = torch.get_num_threads()
    run(["verify", "--example", "mine.py"])
    assert run(["verify", "--module", "mine.py:BlockAttnRes"]) == 0
    assert torch.get_num_threads() == before


def test_the_example_is_written_once_and_holds(capsys: Capture) -> None:
    assert run(["verify", "--example", "mine.py"]) == ExitCode.DONE
    assert "next: attnres verify --module mine.py:BlockAttnRes" in capsys.readouterr().out
    assert run(["verify", "--module", "mine.py:BlockAttnRes"]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("BlockAttnRes: all hold\n")
    assert run(["verify", "--example", "mine.py"]) == ExitCode.USAGE
    assert "left as it is" in capsys.readouterr().err


def test_a_faulty_module(capsys: Capture) -> None:
    run(["verify", "--example", "mine.py"])
    file = Path("mine.py")
    file.write_text(file.read_text().replace(".sum(-1)  # no 1/sqrt(d)", ".sum(-1) / values.shape[-1] ** 0.5"))
    capsys.readouterr()
    assert run(["verify", "--module", "mine.py:BlockAttnRes"]) == ExitCode.THRESHOLD
    said = capsys.readouterr().out
    assert said.startswith("BlockAttnRes: FAILS\n")
    assert "mixing, logits have no scale: equals ours with a 1/sqrt(d) scale" in said


def test_what_cannot_be_measured_is_shown_and_null_in_json(capsys: Capture) -> None:
    """Without an output site, the paper's walk cannot even be taken with the module's own mix."""
    run(["verify", "--example", "mine.py"])
    text = Path("mine.py").read_text().replace("sites = num_sublayers + 1", "sites = num_sublayers")
    Path("mine.py").write_text(text.replace("return self.mix([*blocks, partial], len(sublayers))", "return partial"))
    capsys.readouterr()
    payload = verify_json(capsys, "--module", "mine.py:BlockAttnRes", code=ExitCode.THRESHOLD)
    (walk,) = [check for check in payload["checks"] if check["name"] == "walk"]
    assert [f["measured"] for f in walk["findings"] if f["aspect"] == "equals Eq. 1 and 5-6"] == [None]
    assert run(["verify", "--module", "mine.py:BlockAttnRes"]) == ExitCode.THRESHOLD
    assert re.search(r"equals Eq. 1 and 5-6 +FAILS +inf +1.0e-09", capsys.readouterr().out)


def test_tables_fit_a_terminal(tmp_path: Path) -> None:
    run(["verify", "--example", "mine.py"])
    said = on_a_terminal(tmp_path, "verify", "--module", "mine.py:BlockAttnRes", NO_COLOR="1")
    assert "BlockAttnRes: all hold" in said
    assert max(map(len, said.splitlines())) <= 80


MODULE = """
import torch
class Good:
    def __init__(self, d_model, num_sublayers):
        self.w = [torch.nn.Parameter(torch.zeros(d_model)) for _ in range(num_sublayers + 1)]
    def queries(self): return self.w
    def mix(self, sources, ordinal): return sources[0]
class NoMix(Good):
    mix = None
    def mixing(self, sources, ordinal): return sources[0]
class Shape(Good):
    def mix(self, sources, ordinal): return sources[0][0]
class Nothing(Good):
    def mix(self, sources, ordinal): pass
class Raises(Good):
    def mix(self, sources, ordinal):
        return sources["a"]
class Arguments(Good):
    def mix(self, sources): return sources[0]
class Constructor:
    def __init__(self, a, b, c): pass
class FailsToBuild:
    def __init__(self): raise OSError("no such disk")
class TooFew(Good):
    def queries(self): return self.w[:3]
class Wide(Good):
    def queries(self): return [torch.zeros(3)] * 9
class Words(Good):
    def queries(self): return ["a"] * 9
class Blocks(Good):
    block_sublayers = 99
    def walk(self, embedding, sublayers):
        for f in sublayers: embedding = f(embedding)
        return embedding
NotAClass = 3
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Goood", "nearest: Good"),
        ("NotAClass", "has no class 'NotAClass'"),
        ("NoMix", "NoMix has no method mix()"),
        ("Shape", "mix() of Shape returned shape [5, 16]"),
        ("Nothing", "mix() of Nothing returned NoneType"),
        ("Raises", "where: mine.py:17"),
        ("Arguments", "raised TypeError"),
        ("Constructor", "Constructor(a, b, c) cannot be built here"),
        ("FailsToBuild", "its constructor of FailsToBuild raised OSError: no such disk"),
        ("TooFew", "queries() gives 3 vectors"),
        ("Wide", "queries()[0] is a tensor of shape [3]"),
        ("Words", "queries()[0] is 'a'"),
        ("Blocks", "block_sublayers is 99"),
    ],
)
def test_what_is_wrong_with_a_users_class_is_said(name: str, said: str, capsys: Capture) -> None:
    Path("mine.py").write_text(MODULE)
    assert run(["verify", "--module", f"mine.py:{name}"]) == ExitCode.INPUT
    streams = capsys.readouterr()
    assert said in streams.err
    assert streams.out == ""
    assert "Traceback" not in streams.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import torch\nclass A(:\n", "broken.py:2"),
        ("import torch\n\nimport no_such_library\n", "broken.py:3"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_a_file_that_cannot_be_imported(text: str, said: str, capsys: Capture) -> None:
    Path("broken.py").write_text(text)
    assert run(["verify", "--module", "broken.py:A"]) == ExitCode.INPUT
    streams = capsys.readouterr()
    assert said in streams.err
    assert "Traceback" not in streams.err


def test_a_module_may_import_its_neighbours(capsys: Capture) -> None:
    run(["verify", "--example", "neighbour.py"])
    Path("mine.py").write_text("from neighbour import BlockAttnRes as Base\nclass Mine(Base): pass\n")
    assert run(["verify", "--module", "mine.py:Mine"]) == ExitCode.DONE
    assert {path.name for path in Path().iterdir()} == {"mine.py", "neighbour.py"}  # nothing is left behind


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["cpu-tniy"], ExitCode.INPUT, "cpu-tiny"),
        (["cpu-tiny", "--residual", "attnres-blok"], ExitCode.INPUT, "attnres-block"),
        (["cpu-tiny", "--set", "residual.num_blokcs=3"], ExitCode.INPUT, "residual"),
        (["--residual", "attnres-full"], ExitCode.USAGE, "change a preset"),
        (["--module", "mine.py"], ExitCode.USAGE, "path.py:Class"),
        (["--module", "mine.py:"], ExitCode.USAGE, "path.py:Class"),
        (["--module", "no/such.py:A"], ExitCode.INPUT, "There is no file 'no/such.py'"),
        (["--module", "mien.py:A"], ExitCode.INPUT, "nearest: mine.py"),
        (["cpu-tiny", "--module", "mine.py:A"], ExitCode.USAGE, "--module"),
        (["cpu-tiny", "--example", "mine.py"], ExitCode.USAGE, "--example"),
        (["--example", "no/such/folder.py"], ExitCode.INPUT, "cannot be written"),
    ],
)
def test_bad_input(words: list[str], code: ExitCode, said: str, capsys: Capture) -> None:
    Path("mine.py").touch()
    assert run(["verify", *words]) == code
    streams = capsys.readouterr()
    assert said in streams.err
    assert streams.out == ""
    assert "Traceback" not in streams.err


def test_failures_as_json(capsys: Capture) -> None:
    assert run(["verify", "--module", "no.py:A", "--json"]) == ExitCode.INPUT
    streams = capsys.readouterr()
    assert json.loads(streams.err.splitlines()[-1])["errors"][0]["where"] == "--module"
    assert streams.out == ""
