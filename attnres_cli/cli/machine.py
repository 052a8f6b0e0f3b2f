"""What `attnres doctor` looks at: one function per finding, each with what to do about it.

A finding is "broken" only where training or comparing cannot work; whatever merely costs time or a choice is a "note".
"""

from __future__ import annotations

import getpass
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Literal

from attnres_cli.runs.environment import package_version, processor_name

Status = Literal["ok", "note", "broken"]

GIB = 2**30
LITTLE_DISK_BYTES = 2 * GIB
NO_DISK_BYTES = GIB // 4


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. advice: what to do about it, None where there is nothing to do."""

    name: str
    status: Status
    text: str
    advice: str | None = None


def findings(runs_dir: Path) -> Iterator[Finding]:
    """Everything but the self-test, in the order of a reader's questions. Loads torch."""
    checks: dict[str, Callable[[], Finding | Iterator[Finding]]] = {
        "python": interpreter,
        "packages": packages,
        "processor": processor,
        "devices": devices,
        "threads": threads,
        "waiting": waiting,
        "allocator": allocator,
        "compiler": compiler,
        "C++ operators": native_operators,
        "tokenizers": tokenizers,
        "presets": presets,
        "caches": caches,
        "disk": lambda: disk(runs_dir),
    }
    for name, check in checks.items():
        try:
            found = check()
            yield from [found] if isinstance(found, Finding) else found
        except Exception as error:  # one check that fails must not hide what the others find
            yield Finding(name, "broken", f"could not be checked: {type(error).__name__}: {error}")


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


# ---- processor and devices


def usable_cores() -> float:
    """Cores that this process may use: the affinity mask, and the quota of a container."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return cores if quota == "max" else min(cores, int(quota) / int(period))
    except (OSError, ValueError):
        return cores


def processor() -> Finding:
    cores = usable_cores()
    text = f"{processor_name()}, {cores:g} usable cores"
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > cores:
        advice = "times will be longer and less even than on a quiet machine; close what is not needed"
        return Finding("processor", "note", f"{text}, busy with other work (load {load:.1f})", advice)
    return Finding("processor", "ok", text)


def devices() -> Iterator[Finding]:
    """Every CUDA device, or why there is none."""
    import torch

    if torch.cuda.is_available():
        for index in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(index)
            free, total = torch.cuda.mem_get_info(index)
            halves = "bf16" if properties.major >= 8 else "no fast bf16"
            text = f"{properties.name}, {free / GIB:.1f} of {total / GIB:.1f} GiB free, {halves}"
            yield Finding(f"cuda:{index}", "ok", text)
    elif shutil.which("nvidia-smi") is None:
        yield Finding("device", "ok", "no GPU; training runs on the CPU")
    elif torch.version.cuda is None:
        advice = "install torch for your driver: https://pytorch.org/get-started/locally/"
        yield Finding("device", "note", "an NVIDIA driver is here, but this torch is built without CUDA", advice)
    else:
        text = f"torch is built for CUDA {torch.version.cuda} and finds no usable GPU"
        yield Finding(
            "device", "note", text, "see what `nvidia-smi` says; a driver older than this torch needs an older torch"
        )


# ---- threads


def threads() -> Finding:
    import torch

    count, cores = torch.get_num_threads(), usable_cores()
    wanted = os.environ.get("OMP_NUM_THREADS")
    text = f"{count} for torch" + (f" (OMP_NUM_THREADS={wanted})" if wanted else "")
    if count > max(1.0, cores):
        advice = f"--set train.threads={max(1, int(cores))}"
        return Finding("threads", "note", f"{text}, more than the {cores:g} usable cores", advice)
    return Finding("threads", "ok", text)


def waiting() -> Finding:
    """How idle OpenMP threads wait, as the library itself reports it when torch loads it."""
    policy = (_openmp_says("OMP_WAIT_POLICY") or os.environ.get("OMP_WAIT_POLICY", "unknown")).upper()
    text = f"OMP_WAIT_POLICY {policy}"
    if policy == "ACTIVE":
        advice = "on shared cores, waiting threads take the time of working ones: unset OMP_WAIT_POLICY"
        return Finding("waiting", "note", text, advice)
    return Finding("waiting", "ok", text)


def allocator() -> Finding:
    """What becomes of freed memory while models are trained on the CPU."""
    from attnres_cli.native.allocator import keep_freed_memory

    return Finding("allocator", "ok", keep_freed_memory())


def _openmp_says(variable: str) -> str | None:
    """The value that OpenMP settles on, from its own report when a fresh process loads the library that torch uses.

    None where there is no such library or it gives no report.
    """
    import torch  # noqa: F401  (loads the library)

    try:
        mapped = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:  # not Linux
        return None
    library = re.search(r"\S*/lib(?:gomp|iomp|omp)[^/\s]*\.so\S*", mapped)
    if library is None:
        return None
    report = subprocess.run(
        [sys.executable, "-c", f"import ctypes; ctypes.CDLL({library.group()!r})"],
        env={**os.environ, "OMP_DISPLAY_ENV": "true"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    match = re.search(rf"{variable}\s*=\s*'(\w+)'", report.stderr + report.stdout)
    return match.group(1) if match else None


# ---- compiler


def compiler() -> Finding:
    """What torch.compile needs on a CPU; `compile = "auto"` does without."""
    advice = "only train.compile = 'on' needs it on a CPU: install g++ and Python's headers (python3-dev)"
    command = next((each for each in (os.environ.get("CXX"), "g++", "clang++") if each and shutil.which(each)), None)
    if command is None:
        return Finding("compiler", "note", "no C++ compiler", advice)
    answer = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    first_line = (answer or command).splitlines()[0]
    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return Finding("compiler", "note", f"{first_line}, but no Python.h", advice)
    ninja = "ninja" if shutil.which("ninja") or package_version("ninja") else "no ninja"
    return Finding("compiler", "ok", f"{first_line}, {ninja}")


def native_operators() -> Finding:
    """Whether the fast CPU operators are there; builds them if that has not been done."""
    from attnres_cli.native import build

    reason = build.load()
    if reason is None:
        return Finding("C++ operators", "ok", f"built, in {build.cache_folder()}")
    advice = "plain PyTorch does the same, more slowly: install GCC (g++), or name it in CXX"
    return Finding("C++ operators", "note", reason, advice)


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
    return Finding(name, "ok", f"{folder} ({size_text(sum(sizes))} in {len(sizes)} files)")


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
