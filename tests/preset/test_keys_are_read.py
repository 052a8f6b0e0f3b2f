"""No key may exist that nothing reads: an option without effect is a lie to whoever sets it.

The sources of the package are searched for attribute reads of every key, through an expression that holds its section:
`preset.train.seed`, `train = preset.train; train.seed`, a parameter annotated `TrainConfig`, `self.config` of a scheme.
A read inside the schema, a check, a property or a method of presets counts only if somebody outside uses that.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from attnres_cli.preset import preset as preset_module
from attnres_cli.preset.schema import SECTIONS, Section, TrainConfig
from attnres_cli.preset.variants import PROGRAM, VARIANTS, all_models

PACKAGE = Path(preset_module.__file__).parent.parent
MODEL_NAMES = {model.__name__: section for section, model in SECTIONS.items()}
# Rooms whose `config` is the section they are named for, whatever the annotation says.
ROOMS = {"residual": "residual", "data": "data"}


def sources() -> dict[Path, ast.Module]:
    """Every file that may read a key: the preset room judges keys, it does not use them."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path.parent.name != "preset"]
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}


class Reads:
    """What one file reads: (section, attribute) pairs, and attributes of whole presets.

    attributes: class → attribute → the sections it holds, of the whole package (`LanguageModel.config`).
    """

    def __init__(self, path: Path, tree: ast.Module, attributes: Mapping[str, Mapping[str, set[str]]]) -> None:
        own = ROOMS.get(path.relative_to(PACKAGE).parts[0])
        self.attributes = attributes
        self.presets: set[str] = set()  # names of variables that hold a preset
        self.holders: dict[str, set[str]] = {}  # "train" or "self.config" → the sections it may hold
        if own:
            self.holders = {name: {own} for name in ("config", "self.config", "self._config")}
        nodes = outside_section_classes(tree)
        self._learn(nodes, own)
        read = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)]
        self.of_sections = {(section, node.attr) for node in read for section in self.sections_of(node.value)}
        self.of_presets = {node.attr for node in read if self.is_preset(node.value)}

    def is_preset(self, node: ast.expr) -> bool:
        text = spelled(node)
        return text in self.presets or text.rsplit(".")[-1].endswith("preset")

    def sections_of(self, node: ast.expr) -> set[str]:
        """The sections that an expression may hold."""
        text = spelled(node)
        if text in self.holders:
            return self.holders[text]
        return (
            {node.attr}
            if isinstance(node, ast.Attribute) and node.attr in SECTIONS and self.is_preset(node.value)
            else set()
        )

    def _learn(self, nodes: list[ast.AST], own: str | None) -> None:
        for node in nodes:
            if isinstance(node, ast.arg) and node.annotation is not None:
                self._declare(node.arg, node.annotation, own)
            elif isinstance(node, ast.AnnAssign):
                self._declare(spelled(node.target), node.annotation, own)
        for node in nodes:
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)

    def _declare(self, name: str, annotation: ast.expr, own: str | None) -> None:
        types = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
        self._hold(name, sections_in(annotation, own))
        if "Preset" in types:
            self.presets.add(name)
        for each in types:
            for attribute, sections in self.attributes.get(each, {}).items():
                self._hold(f"{name}.{attribute}", sections)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            for one, other in zip(target.elts, value.elts, strict=True):
                self._assign(one, other)
            return
        if self.is_preset(value) or (isinstance(value, ast.Call) and spelled(value.func).endswith("preset")):
            self.presets.add(spelled(target))
        self._hold(spelled(target), self.sections_of(value))

    def _hold(self, name: str, sections: set[str]) -> None:
        if sections:
            self.holders[name] = self.holders.get(name, set()) | sections


def attributes_of_classes(trees: Mapping[Path, ast.Module]) -> dict[str, dict[str, set[str]]]:
    """Class → attribute → the sections that `self.attribute = …` puts there."""
    found: dict[str, dict[str, set[str]]] = {}
    for path, tree in trees.items():
        for cls in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
            holders = Reads(path, ast.Module([cls], []), {}).holders
            own = {name.removeprefix("self."): held for name, held in holders.items() if name.startswith("self.")}
            found.setdefault(cls.name, {}).update(own)
    return found


def outside_section_classes(tree: ast.AST) -> list[ast.AST]:
    """All nodes in the order of the text, but those inside classes that are sections: these describe keys."""
    found: list[ast.AST] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        found.append(node)
        children: list[ast.AST] = []
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, list):
                children += [each for each in value if isinstance(each, ast.AST) and not is_section(each)]
            elif isinstance(value, ast.AST) and not isinstance(value, ast.expr_context):
                children.append(value)
        pending += children[::-1]
    return found[1:]


def is_section(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Config") for base in node.bases)


def spelled(node: ast.expr) -> str:
    """The expression's text. Most are names and attributes of names, which need no walk of the unparser."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
        return f"{spelled(node.value)}.{node.attr}"
    return ast.unparse(node)


def sections_in(annotation: ast.expr, own: str | None) -> set[str]:
    """Sections whose models an annotation names; `Config` is that of the room."""
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    found = {MODEL_NAMES[name] for name in names if name in MODEL_NAMES}
    return found | (
        {own} if own and any(name.endswith("Config") and name not in MODEL_NAMES for name in names) else set()
    )


@cache
def all_reads() -> tuple[frozenset[tuple[str, str]], frozenset[str]]:
    gc.disable()  # hundreds of trees at once: to look through them for garbage takes as long as to read them
    try:
        trees = sources()
        attributes = attributes_of_classes(trees)
        reads = [Reads(path, tree, attributes) for path, tree in trees.items()]
    finally:
        gc.enable()
    of_presets = frozenset(each for read in reads for each in read.of_presets)
    of_sections = {each for read in reads for each in read.of_sections}
    return frozenset(of_sections | read_by_presets(of_presets)), of_presets


def read_by_presets(used: frozenset[str]) -> set[tuple[str, str]]:
    """What `Preset.steps` and its like read, properties and methods, for those that are used outside."""
    tree = ast.parse(Path(preset_module.__file__).read_text(encoding="utf-8"))
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    wanted, pending = set(), [name for name in functions if name in used]
    while pending:
        name = pending.pop()
        if name in wanted:
            continue
        wanted.add(name)
        pending += [other for other in functions if f"self.{other}" in ast.unparse(functions[name])]
    return {
        (node.value.attr, node.attr)
        for name in wanted
        for node in ast.walk(functions[name])
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)
    }


def keys_read_by_property(model: type[Section], name: str) -> set[str]:
    """Keys that the property `name` of a section reads, through other properties, too."""
    function = model_property(model, name)
    if function is None:
        return {name}
    attributes = {
        node.attr
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return {key for each in attributes for key in keys_read_by_property(model, each)}


def model_property(model: type[Section], name: str) -> ast.FunctionDef | None:
    import inspect

    for cls in model.__mro__:
        if not isinstance(cls.__dict__.get(name), property):
            continue
        module = inspect.getmodule(cls)
        assert isinstance(module, ModuleType)
        tree = ast.parse(inspect.getsource(module))
        body = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == cls.__name__)
        return next(node for node in body.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return None


def unread_keys(section: str, model: type[Section]) -> list[str]:
    of_sections, _ = all_reads()
    read = {key for place, name in of_sections if place == section for key in keys_read_by_property(model, name)}
    control = VARIANTS[section].key if section in VARIANTS else None  # it is read to find the model itself
    return [key for key in model.model_fields if key not in read and key != control and key not in model.ignored_keys]


MODELS = [
    pytest.param(section, model, id=f"{section} {variant}".strip())
    for section in SECTIONS
    for variant, model in all_models(section, PROGRAM).items()
]


@pytest.mark.parametrize(("section", "model"), MODELS)
def test_somebody_reads_every_key(section: str, model: type[Section]) -> None:
    assert unread_keys(section, model) == []


def test_a_key_that_nothing_reads_is_found() -> None:
    class Padded(TrainConfig):
        momentum: float = 0.9

    assert unread_keys("train", Padded) == ["momentum"]


def test_the_search_finds_what_is_read_and_nothing_else() -> None:
    code = """
def f(preset, config: TrainConfig, other):
    model, steps = preset.model, preset.steps
    size = preset.data
    other.beta1
    loaded = load_preset("x")
    loaded.observe.every_steps, other.train.beta2
    return config.seed + model.resolved_d_ff + size.tokenizer + preset.steps + self.preset.eval.tokens
def g(network: Network):
    shape = network.config
    return shape.init_std
class Config(DataConfig):
    def check(self, preset):
        return preset.train.threads
"""
    reads = Reads(PACKAGE / "train" / "x.py", ast.parse(code), {"Network": {"config": {"model"}}})
    assert reads.of_sections >= {
        ("train", "seed"),
        ("model", "resolved_d_ff"),
        ("data", "tokenizer"),
        ("eval", "tokens"),
    }
    assert not {("train", "beta1"), ("train", "threads")} & reads.of_sections
    assert "steps" in reads.of_presets
    assert keys_read_by_property(SECTIONS["model"], "resolved_d_ff") == {"d_ff", "d_model"}
    assert read_by_presets(frozenset({"accumulation_steps"})) == {
        ("train", "tokens_per_step"), ("model", "context_tokens"), ("train", "micro_batch_sequences"),
    }  # fmt: skip
    assert read_by_presets(frozenset()) == set()
