from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from attnres_cli.data.corpora.stdlib import Config, documents
from attnres_cli.errors import UserError

HERE = Path()


def names(*packages: str) -> list[str]:
    return [document.name for document in documents(Config(corpus="stdlib", packages=packages), HERE)]


def test_standard_library_without_what_is_left_out() -> None:
    found = names()
    assert "stdlib/textwrap.py" in found
    assert "stdlib/json/decoder.py" in found
    assert found == sorted(found)
    folders = {part for name in found for part in name.split("/")[1:-1]}
    assert not folders & {
        "site-packages",
        "dist-packages",
        "test",
        "tests",
        "idlelib",
        "encodings",
        "pydoc_data",
        "lib2to3",
    }
    assert not any("_sysconfigdata" in name for name in found)


def test_it_is_a_few_megabytes_of_text() -> None:
    size = sum(len(document.text) for document in documents(Config(corpus="stdlib"), HERE))
    assert 5e6 < size < 15e6


def test_packages_are_added_in_order() -> None:
    found = names("typer", "annotated_doc", "typer")
    added = found[len(names()) :]
    tops = list(dict.fromkeys(name.split("/")[0] for name in added))
    assert tops == ["typer", "annotated_doc"]
    assert len(added) == len(set(added))


def test_a_package_of_one_file() -> None:
    assert names("typing_extensions")[-1] == "typing_extensions.py"


def test_missing_package_names_the_nearest() -> None:
    with pytest.raises(UserError, match="no installed package 'typr'") as caught:
        names("typr")
    assert caught.value.faults[0].nearest == "typer"


@pytest.mark.parametrize("package", ["os.path", "../x", ""])
def test_what_is_no_package_name(package: str) -> None:
    with pytest.raises(UserError, match="no installed package"):
        names(package)


def test_package_without_sources_names_another_corpus() -> None:
    with pytest.raises(UserError, match="no source files of the package sys") as caught:
        names("sys")
    assert 'corpus = "text"' in str(caught.value.faults[0].hint)


def test_python_without_sources_names_another_corpus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a Python whose library is one zip file: the folder is not there."""
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path / "python311.zip")})
    with pytest.raises(UserError, match="no source files of the standard library") as caught:
        names()
    assert 'corpus = "text"' in str(caught.value.faults[0].hint)


def test_installed_packages_inside_the_library_are_not_walked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (
        "a.py",
        "json/b.py",
        "site-packages/torch/c.py",
        "json/tests/d.py",
        "empty.py",
        "config-3.11-x/e.py",
        "f.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("" if name == "empty.py" else "x = 1\n")
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"stdlib": str(tmp_path)})
    assert names() == ["stdlib/a.py", "stdlib/json/b.py"]
