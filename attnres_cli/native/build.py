"""Builds the C++ operators on first use, with the user's own compiler, and keeps the library for next time.

The library is cached under a name that holds everything it depends on: the sources, the compiler, its flags and the
build of torch; and it is loaded only as long as it is, byte by byte, what was built (kept.py). Nothing is downloaded
and no Python headers are needed: the operators register themselves with torch.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import torch

from attnres_cli.caches import default_cache_folder
from attnres_cli.native import kept
from attnres_cli.notices import notify

SOURCES = Path(__file__).parent
# A compiler named here must be GCC: only its OpenMP code runs on the thread pool that torch brings along.
COMPILER_VARIABLE = "CXX"
_CANDIDATES = ("g++", "c++")
FOLDER_VARIABLE = "ATTNRES_NATIVE_CACHE"
_BUILD_SECONDS = 600
NO_COMPILER = "no GCC (g++) was found"
# What torch's own vectors need, by the capability that torch reports for this processor.
_VECTORS = {
    "AVX2": ("-mavx2", "-mfma", "-mf16c", "-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2"),
    "AVX512": (
        "-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mf16c",
        "-DCPU_CAPABILITY=AVX512", "-DCPU_CAPABILITY_AVX512",
    ),
}  # fmt: skip
_loaded = False


@cache
def load() -> str | None:
    """Make `torch.ops.attnres` computable on the CPU, building it if need be. None, or why it cannot be done."""
    if platform.system() != "Linux":
        return f"the C++ operators are built on Linux only, and this is {platform.system()}"
    compiler = find_compiler()
    if compiler is None:
        return NO_COMPILER
    path, version = compiler
    library = cache_folder() / f"attnres-{_fingerprint(version)}.so"
    refused: str | None = None
    try:
        for _ in range(2):
            problem = _put_in_place(path, version, library, refused)
            if problem is not None:
                return problem
            refused = _refused(library)
            if refused is None:
                break
    except OSError as error:
        return f"there is no place to keep the built operators: {error}"
    if refused is not None:
        return f"the built library does not load: {refused}"
    global _loaded
    _loaded = True
    return None


def _put_in_place(compiler: str, version: str, library: Path, refused: str | None = None) -> str | None:
    """See to it that `library` is there and whole: nothing to do, or built now; or why that cannot be done.

    refused: what the loader said of the one that is there; it is built anew, unless that has been tried before.
    """
    if refused is None and kept.damage(library) is None:
        return None
    with _alone(library.parent):
        damage = kept.damage(library)  # again: another process may have built it meanwhile
        if damage is None and (refused is None or kept.is_second_attempt(library)):
            return None
        if library.exists():
            why = damage or f"does not load ({refused})"
            notify(f"Building the C++ operators again with {version} (about half a minute): {library} {why} …")
        else:
            notify(f"Building the C++ operators with {version} (once, about half a minute) …")
        kept.discard(library)
        return _build(compiler, library, second_attempt=damage is None)


def _refused(library: Path) -> str | None:
    """Load a library that is whole; None, or what the loader had against it."""
    try:
        torch.ops.load_library(str(library))  # type: ignore[no-untyped-call]
    except OSError as error:
        return str(error)
    return None


def cache_folder() -> Path:
    """$ATTNRES_NATIVE_CACHE, else native below the cache folder of everything else."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named).expanduser() if named else default_cache_folder() / "native"


def loaded() -> bool:
    """Whether `load` has been called and has succeeded."""
    return _loaded


@cache
def find_compiler() -> tuple[str, str] | None:
    """Path and first version line of GCC, or None."""
    named = os.environ.get(COMPILER_VARIABLE)
    for name in (named,) if named else _CANDIDATES:
        path = shutil.which(name)
        if path is None:
            continue
        told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        if told and "clang" not in told.lower():
            return path, told.splitlines()[0]
    return None


def _flags(capability: str | None = None) -> list[str]:
    """For a processor of this capability, in torch's words; this one by default."""
    vectors = _VECTORS.get(capability or torch.backends.cpu.get_cpu_capability(), ())
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return ["-O3", "-std=c++20", "-fPIC", "-fopenmp", "-fno-math-errno", abi, *vectors]


def _fingerprint(compiler_version: str) -> str:
    digest = hashlib.sha256()
    for path in _source_files():
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    for part in (compiler_version, *_flags(), torch.__version__, str(torch.version.git_version), platform.machine()):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()[:16]


def _source_files() -> list[Path]:
    return sorted(path for path in SOURCES.iterdir() if path.suffix in (".cpp", ".h"))


def _build(compiler: str, library: Path, *, second_attempt: bool) -> str | None:
    """Compile, link, and put the library in place at once; or why that failed.

    The units are compiled at the same time.
    """
    torch_folder = Path(torch.__file__).parent
    try:
        with tempfile.TemporaryDirectory(dir=library.parent) as folder:
            built, commands = Path(folder) / library.name, []
            for name, text in units().items():
                unit = Path(folder) / f"{name}.cpp"
                unit.write_text(text, encoding="utf-8")
                commands.append([compiler, "-c", *_flags(), *_includes(), str(unit), "-o", str(unit.with_suffix(".o"))])
            compiled = [command[-1] for command in commands]
            # Without -fopenmp when linking: the OpenMP runtime in use is the one that libtorch_cpu brings along.
            libraries = [f"-L{torch_folder / 'lib'}", "-ltorch_cpu", "-lc10"]
            link = [compiler, "-shared", *compiled, "-o", str(built), *libraries]
            for what, each in (("compile", commands), ("link", [link])):
                for code, said in _side_by_side(each):
                    if code != 0:
                        return f"the C++ operators do not {what}: {_first_error(said)}"
            kept.keep(built, library, second_attempt=second_attempt)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"the C++ operators could not be built: {error}"
    return None


def units() -> dict[str, str]:
    """The translation units, by name. The operators are one: torch's headers take as long as they do. Their
    registration is another, because its header takes as long to read as all others together, and they do without."""
    sources = [path.name for path in _source_files() if path.suffix == ".cpp"]
    registration = "library.cpp"
    of_each = {"operators": [name for name in sources if name != registration], "registration": [registration]}
    return {unit: "".join(f'#include "{name}"\n' for name in names) for unit, names in of_each.items()}


def _side_by_side(commands: list[list[str]]) -> list[tuple[int, str]]:
    """(exit code, what it said on stderr) of each. None goes on when this process is interrupted, or waits too long."""
    running: list[subprocess.Popen[str]] = []
    try:
        for command in commands:
            running.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        said = [process.communicate(timeout=_BUILD_SECONDS)[1] for process in running]
        return [(process.returncode, text) for process, text in zip(running, said, strict=True)]
    finally:
        for process in running:
            process.kill()
            process.wait()


def _includes() -> list[str]:
    folder = Path(torch.__file__).parent / "include"
    return [f"-I{SOURCES}", f"-I{folder}", f"-I{folder / 'torch/csrc/api/include'}"]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock: processes that start together build once, and the others wait."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _first_error(stderr: str) -> str:
    lines = stderr.strip().splitlines() or ["no message"]
    return next((line for line in lines if "error" in line), lines[0])
