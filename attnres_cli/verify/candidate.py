"""A user's own module, loaded from its file and asked through a small adapter (docs/verify.md):

mix(sources, ordinal)   sources: list of [B, T, d], oldest first → what sublayer `ordinal` sees before its norm,
                        [B, T, d]; ordinal counts sublayers from 0, and L is the output site
queries()               the L + 1 queries of d numbers, in order of sites, as parameters or views of parameters
key_gains()             optional: the gains of the key norms, likewise
walk(embedding, sublayers)   optional: the whole depth; what the final norm gets, [B, T, d]
epsilon, block_sublayers, num_blocks   optional attributes: of the key norm; S or N (neither: Full)
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from attnres_cli.errors import ExitCode, UserError, is_out_of_memory, nearest_name
from attnres_cli.verify.equations import block_sizes

D_MODEL = 16
NUM_SUBLAYERS = 8
REQUIRED = ("mix", "queries")
ADAPTER = "mix(sources, ordinal) and queries(); optional key_gains(), walk(embedding, sublayers) (docs/verify.md)"
Sublayer = Callable[[Tensor], Tensor]
T = TypeVar("T")


class Candidate:
    """The user's object, in float64. Whatever it raises becomes a UserError that names its own line."""

    def __init__(self, spec: str) -> None:
        """spec: "path.py:Class". Raises UserError where there is no such file or class, it cannot be built, or it lacks
        a method of the adapter."""
        self.path, self.class_name = _split(spec)
        made = _class_of(self.path, self.class_name)
        self.where = f"{self.path}:{self.class_name}"
        with self._named("its constructor"):
            torch.manual_seed(0)
            self.object = _built(made, self.where)
        methods = [name for name in dir(self.object) if callable(getattr(self.object, name, None)) and name[0] != "_"]
        for name in REQUIRED:
            if name not in methods:
                raise UserError(
                    f"{self.class_name} has no method {name}().", where=self.where, expected=ADAPTER,
                    nearest=nearest_name(name, methods),
                )  # fmt: skip
        self.has_walk, self.has_gains = "walk" in methods, "key_gains" in methods
        if isinstance(self.object, nn.Module):
            self.object.double()
        else:
            self._each_parameter(lambda tensor: tensor.double())
        self.sizes = self._sizes()
        # Before anything is written over: what a training would start from.
        self.first_queries = [query.detach().clone() for query in self.queries()]

    # ---- its shape

    @property
    def epsilon(self) -> float | None:
        """Of its key norm, where it says."""
        declared = getattr(self.object, "epsilon", getattr(self.object, "eps", None))
        return float(declared) if isinstance(declared, (int, float)) else None

    def _sizes(self) -> list[int]:
        """Sublayers in each of its blocks by the paper's rule."""
        blocks, size = (getattr(self.object, name, None) for name in ("num_blocks", "block_sublayers"))
        for name, value in (("num_blocks", blocks), ("block_sublayers", size)):
            if value is not None and not (isinstance(value, int) and 0 < value <= NUM_SUBLAYERS):
                raise UserError(
                    f"{name} is {value!r}.", where=self.where, expected=f"1 to {NUM_SUBLAYERS} sublayers or None"
                )
        return block_sizes(NUM_SUBLAYERS, blocks, size)

    # ---- its methods

    def mix(self, sources: Sequence[Tensor], ordinal: int) -> Tensor:
        with self._named(f"mix() at site {ordinal} with {len(sources)} sources"):
            mixed = self.object.mix(list(sources), ordinal)
        return self._shaped(mixed, sources[0].shape, "mix()")

    def walk(self, embedding: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        with self._named("walk()"):
            closed = self.object.walk(embedding, list(sublayers))
        return self._shaped(closed, embedding.shape, "walk()")

    def queries(self) -> list[Tensor]:
        return self._vectors("queries")

    def key_gains(self) -> list[Tensor]:
        return self._vectors("key_gains") if self.has_gains else []

    def set_vectors(self, name: str, values: Tensor) -> None:
        """Write the rows [sites, d] over its queries or key gains."""
        with torch.no_grad():
            for vector, row in zip(self._vectors(name), values, strict=True):
                vector.copy_(row.view(vector.shape))

    def _vectors(self, name: str) -> list[Tensor]:
        with self._named(f"{name}()"):
            vectors = list(getattr(self.object, name)())
        for number, vector in enumerate(vectors):
            if not isinstance(vector, Tensor) or vector.numel() != D_MODEL:
                got = f"a tensor of shape {list(vector.shape)}" if isinstance(vector, Tensor) else repr(vector)
                raise UserError(
                    f"{name}()[{number}] is {got}.", where=self.where,
                    expected=f"a parameter of d_model = {D_MODEL} numbers for every site",
                )  # fmt: skip
        if len(vectors) not in (NUM_SUBLAYERS, NUM_SUBLAYERS + 1):
            raise UserError(
                f"{name}() gives {len(vectors)} vectors.", where=self.where,
                expected=f"{NUM_SUBLAYERS + 1}: one for each of {NUM_SUBLAYERS} sublayers and one for the output site",
            )  # fmt: skip
        return vectors

    def _shaped(self, found: Any, shape: torch.Size, method: str) -> Tensor:
        if not isinstance(found, Tensor) or found.shape != shape:
            got = f"shape {list(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise UserError(
                f"{method} of {self.class_name} returned {got}.", where=self.where,
                expected=f"a tensor of shape {list(shape)}, [batch, tokens, channels]",
            )  # fmt: skip
        return found

    def _each_parameter(self, change: Callable[[Tensor], Tensor]) -> None:
        """Change every parameter and module that a plain object (no nn.Module) holds as an attribute."""
        for value in vars(self.object).values():
            if isinstance(value, nn.Module):
                value.double()
            elif isinstance(value, Tensor):
                value.data = change(value.data)
            elif isinstance(value, (list, tuple)):
                for each in value:
                    if isinstance(each, Tensor):
                        each.data = change(each.data)

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Turn whatever the user's code raises into a fault that names its line."""
        try:
            yield
        except UserError:
            raise
        except Exception as error:
            if is_out_of_memory(error):
                raise
            frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == self.path.resolve()]
            said = str(error).splitlines()[0] if str(error) else "no message"
            raise UserError(
                f"{what} of {self.class_name} raised {type(error).__name__}: {said}",
                where=f"{self.path}:{frames[-1].lineno}" if frames else self.where,
                expected=ADAPTER if isinstance(error, (TypeError, AttributeError)) else None,
            ) from error


def _split(spec: str) -> tuple[Path, str]:
    path, colon, name = spec.rpartition(":")
    if not colon or not path or not name.isidentifier():
        raise UserError(
            f"'{spec}' names no class.", where="--module", expected="path.py:Class", exit_code=ExitCode.USAGE
        )
    file = Path(path).expanduser()
    if not file.is_file():
        folder = file.parent
        beside = [each.name for each in folder.glob("*.py")] if folder.is_dir() else []
        raise UserError(f"There is no file '{path}'.", where="--module", nearest=nearest_name(file.name, beside))
    return file, name


def _class_of(path: Path, name: str) -> Any:
    """Import the user's file, with its folder on the path as if it were run, and find the class."""
    folder = str(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(f"attnres_user_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:
        raise UserError(f"'{path}' is no Python file.", where="--module", expected="path.py:Class")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickles look their module up there
    sys.path.insert(0, folder)
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # nothing is left beside the user's file
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path.resolve()]
        line = error.lineno if isinstance(error, SyntaxError) else (lines or [None])[-1]
        raise UserError(
            f"{path.name} cannot be imported: {type(error).__name__}: {error}",
            where=f"{path}:{line}" if line else str(path),
        ) from error
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = writes_bytecode
    found = getattr(module, name, None)
    classes = [key for key, value in vars(module).items() if inspect.isclass(value) and value.__module__ == spec.name]
    if not inspect.isclass(found):
        raise UserError(
            f"{path.name} has no class '{name}'.", where=str(path), expected=", ".join(classes) or None,
            nearest=nearest_name(name, classes),
        )  # fmt: skip
    return found


def _built(made: Any, where: str) -> Any:
    """Class(d_model, num_sublayers), or Class() where it takes no such arguments."""
    try:
        signature = inspect.signature(made)
    except (TypeError, ValueError):
        return made(D_MODEL, NUM_SUBLAYERS)
    for arguments in ((D_MODEL, NUM_SUBLAYERS), ()):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return made(*arguments)
    raise UserError(
        f"{made.__name__}{signature} cannot be built here.", where=where,
        expected="a class that takes (d_model, num_sublayers), or no arguments; give other arguments defaults",
    )  # fmt: skip
