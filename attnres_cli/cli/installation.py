"""The installation as `attnres doctor` sees it: packages, tokenizers, presets, and the folders that are written to. One
function per finding."""

from __future__ import annotations

import getpass
import importlib
import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from attnres_cli.cli.finding import Finding
from attnres_cli.errors import plural
from attnres_cli.runs.environment import package_version

LITTLE_DISK_BYTES = 2 * 2**30
NO_DISK_BYTES = 2**28


# ---- versions


def interpreter() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")


def packages() -> Iterator[Finding]:
    """The program's dependencies: installed, new enough, and loadable."""
    fine = []
    for package, minimum in requirements():
        found = package_version(package)
        if found is None and package == "tomli":
            yield Finding(package, "note", "is not installed; the standard library's tomllib does its work")
        elif found is None:
            yield Finding(package, "broken", "is not installed", f"pip install '{package}>={minimum}'")
        elif _numbers(found) < _numbers(minimum):
            text = f"{found} is too old; {minimum} or newer is needed"
            yield Finding(package, "broken", text, f"pip install -U '{package}>={minimum}'")
        else:
            fine.append(f"{package} {found}")
    for module in ("torch", "numpy"):  # compiled against the system: installed does not mean that they load
        try:
            importlib.import_module(module)
        except (ImportError, OSError) as error:
            yield Finding(module, "broken", f"does not load: {error}", f"pip install --force-reinstall {module}")
    yield Finding("packages", "ok", ", ".join(fine))


def requirements() -> list[tuple[str, str]]:
    """(package, lowest version) of every dependency that is not optional."""
    try:
        declared = requires("attnres-cli") or []
    except PackageNotFoundError:  # run from a source tree
        import tomllib

        project = Path(__file__).parent.parent.parent / "pyproject.toml"
        declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    core = [line for line in declared if "extra ==" not in line]
    matches = [re.match(r"([\w.-]+)\s*>=\s*([\d.]+)", line) for line in core]
    return [(match.group(1), match.group(2)) for match in matches if match]


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: "2.13.0+cpu" → (2, 13, 0)."""
    match = re.match(r"[\d.]+", version)
    return tuple(int(part) for part in match.group().split(".") if part) if match else ()


# ---- tokenizers and presets


def tokenizers() -> Iterator[Finding]:
    """The shipped tokenizers really encode and decode; which of tiktoken's vocabularies are on this machine."""
    from attnres_cli.data.tokenizers import bpe_4096, load_tokenizer, tiktoken_names, utf8_bytes

    text = "def residual(x): return x + f(x)  # Δ"
    for name in (*utf8_bytes.names(), *bpe_4096.names()):
        try:
            tokenizer = load_tokenizer(name)
            decoded = tokenizer.decode(tokenizer.encode_documents([text.encode()])[0].tolist())
        except Exception as error:
            yield Finding(name, "broken", f"{type(error).__name__}: {error}", "reinstall attnres")
            continue
        if decoded == text:
            yield Finding(name, "ok", f"tokenizer of {tokenizer.vocab_size} tokens")
        else:
            yield Finding(name, "broken", f"does not give a text back: {decoded!r}", "reinstall attnres")
    cached = [name for name in tiktoken_names.names() if tiktoken_names.is_cached(name)]
    absent = [name for name in tiktoken_names.names() if name not in cached]
    text = f"cached: {', '.join(cached) or 'none'}; absent: {', '.join(absent) or 'none'}"
    advice = "only where a preset names one: docs/data.md says where its file belongs" if absent else None
    yield Finding("tiktoken names", "ok", text, advice)


def presets() -> Finding:
    """Every built-in preset can be read."""
    from attnres_cli.errors import UserError
    from attnres_cli.preset.reading import load_preset
    from attnres_cli.shipped import shipped_folder

    files = sorted(shipped_folder("presets").glob("*.toml"))
    faults = []
    for path in files:
        try:
            load_preset(path)
        except UserError as error:
            faults.append(f"{path.stem}: {error}")
    if faults or not files:
        return Finding("presets", "broken", "; ".join(faults) or "no built-in presets", "reinstall attnres")
    return Finding("presets", "ok", f"{len(files)} built in: {', '.join(path.stem for path in files)}")


# ---- folders


def caches() -> Iterator[Finding]:
    """Where prepared data, vocabularies and compiled code are kept, and how much of them there is."""
    from attnres_cli.caches import default_cache_folder
    from attnres_cli.data.tokenizers import tiktoken_names

    yield _cache("data cache", default_cache_folder(), "ATTNRES_CACHE")
    vocabularies = tiktoken_names.cache_folder()
    if vocabularies is None:
        yield Finding("tiktoken cache", "note", "switched off", "unset TIKTOKEN_CACHE_DIR, or point it at a folder")
    else:
        yield _cache("tiktoken cache", vocabularies, "TIKTOKEN_CACHE_DIR")
    # Inductor's own rule; asking it would take seconds of imports.
    user = re.sub(r'[\\/:*?"<>|]', "_", getpass.getuser())
    compiled = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or Path(tempfile.gettempdir(), f"torchinductor_{user}")
    yield _cache("compile cache", Path(compiled), "TORCHINDUCTOR_CACHE_DIR")


def _cache(name: str, folder: Path, variable: str) -> Finding:
    if not _can_write(folder):
        return Finding(name, "broken", f"{folder} cannot be written", f"{variable}=FOLDER, a folder of yours")
    if not folder.exists():
        return Finding(name, "ok", f"{folder} (empty)")
    sizes = [path.lstat().st_size for path in folder.rglob("*") if path.is_file()]
    return Finding(name, "ok", f"{folder} ({size_text(sum(sizes))} in {len(sizes)} {plural(len(sizes), 'file')})")


def _can_write(folder: Path) -> bool:
    """Whether `folder`, or the folder it would be made in, can be written."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK)


def disk(runs_dir: Path) -> Finding:
    """Space where runs are written."""
    if not _can_write(runs_dir):
        return Finding("disk", "broken", f"{runs_dir} cannot be written", "--runs-dir FOLDER, a folder of yours")
    folder = runs_dir.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    text = f"{size_text(free)} free for {runs_dir}"
    if free < NO_DISK_BYTES:
        return Finding("disk", "broken", text, "remove runs (`attnres runs rm`) or use another --runs-dir")
    if free < LITTLE_DISK_BYTES:
        return Finding("disk", "note", text, "a checkpoint takes 12 bytes per parameter; `attnres plan` counts them")
    return Finding("disk", "ok", text)


def size_text(size_bytes: float) -> str:
    """A size for reading: "3.4 MB" (powers of 1000)."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"
