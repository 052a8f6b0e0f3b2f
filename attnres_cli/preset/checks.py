"""What takes more than one key to judge: sizes that must divide one another, and names of files of the program.

Everything here is found before anything is built, with the place of the key and the nearest sizes that would do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from inspect import getattr_static
from typing import Any, cast

from attnres_cli.errors import Fault, plural
from attnres_cli.preset.explain import Where, complaint_fault, unknown_member
from attnres_cli.preset.fields import marker
from attnres_cli.preset.schema import AnsweredBy, Complaint, MemberOf, Section
from attnres_cli.preset.variants import Members

FARTHEST_PROPOSED = 2  # a number of heads is proposed up to this factor away from the one given


class NotYetValid(AttributeError):
    """A check asked for a value that is itself wrong; it is judged once that is mended."""


class PartlyValid:
    """A section some of whose keys are wrong: checks may read the others, and end where they ask for one of these."""

    def __init__(self, model: type[Section], values: Mapping[str, Any], wrong: frozenset[str]) -> None:
        self._model, self._wrong = model, wrong
        self._section = model.model_construct(**{key: value for key, value in values.items() if key not in wrong})

    def __getattr__(self, name: str) -> Any:
        if name in self._wrong:
            raise NotYetValid(name)
        derived = getattr_static(self._model, name, None)
        if isinstance(derived, property) and derived.fget is not None:
            return derived.fget(self)  # so that what it reads is judged, too
        return getattr(self._section, name)

    def check(self, preset: Any) -> Iterable[Any]:
        """The section's own check, reading through this object."""
        return self._model.check(cast(Section, self), preset)


class Sections:
    """Stands in for a preset while it is judged: sections as attributes."""

    def __init__(self, sections: Mapping[str, Section | PartlyValid]) -> None:
        self._sections = sections

    def __getattr__(self, name: str) -> Any:
        if name not in self._sections:
            raise NotYetValid(name)
        return self._sections[name]


def check(sections: Mapping[str, Section | PartlyValid], where: Where) -> list[Fault]:
    """Everything wrong between the keys of `sections`; `where` takes any number of "section.key"."""
    preset = Sections(sections)
    faults: list[Fault] = []
    checks: list[tuple[str, Callable[[Any], Iterable[Any]]]] = [("", each) for each in CHECKS]
    checks += [(name, section.check) for name, section in sections.items()]
    for section_name, each in checks:
        try:
            for complaint in each(preset):
                faults.append(complaint_fault(section_name, complaint, where))
        except NotYetValid:
            continue
    return faults


def notes_of(sections: Mapping[str, Section]) -> tuple[str, ...]:
    """What a valid preset of these sections says that changes nothing, one sentence each."""
    preset = Sections(sections)
    return tuple(note for section in sections.values() for note in section.notes(preset))


def unknown_members(
    section: str, model: type[Section], values: Mapping[str, Any], where: Where, members: Members
) -> Iterator[Fault]:
    """Values that should name a file of the program, or be known to one, and are not; `where` takes a key of the
    section."""
    for key, value in values.items():
        if key not in model.model_fields:
            continue
        folder, answered = marker(model.model_fields[key], MemberOf), marker(model.model_fields[key], AnsweredBy)
        if folder is not None:
            valid = (*folder.also, *members.names(folder.package))
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, str) and each not in valid:
                    yield unknown_member(folder.what, each, valid, where(key))
        elif answered is not None and isinstance(value, str) and value not in answered.also:
            yield from _unanswered(answered, value, where(key), members)


def _unanswered(answered: AnsweredBy, value: str, where: str | None, members: Members) -> Iterator[Fault]:
    """The fault of a name that no file of the folder answers to; nothing where one does."""
    package = answered.package
    kinds = [members.load(package, name, what=answered.what) for name in members.names(package)]
    if any(kind.accepts(value) for kind in kinds):
        return
    valid = (*answered.also, *(name for kind in kinds for name in kind.names()))
    fault = unknown_member(answered.what, value, valid, where)
    yield replace(fault, expected=", or ".join(filter(None, [fault.expected, answered.besides])))


def heads_divide_width(preset: Any) -> Iterator[Complaint]:
    """Head sizes: whole, even (rotary embedding turns pairs), key/value heads in whole groups.

    What is proposed mends what it is proposed for and breaks nothing else.
    """
    model = preset.model
    if model.head_dim is None and model.d_model % model.num_heads:
        yield Complaint(
            "model.num_heads",
            f"d_model = {model.d_model} is no multiple of num_heads = {model.num_heads}.",
            _comma_or([*_sizes_with_even_heads(model), "an even head_dim given"]),
            also=("model.d_model",),
        )
    elif model.resolved_head_dim % 2:
        message = f"The head size {model.resolved_head_dim} is odd; rotary embedding needs an even one."
        even = f"an even head_dim, such as {model.resolved_head_dim + 1}"
        if model.head_dim is None:
            expected = _comma_or([*_sizes_with_even_heads(model), even])
            yield Complaint("model.num_heads", message, expected, also=("model.d_model",))
        else:
            yield Complaint("model.head_dim", message, even)
    if model.num_heads % model.resolved_num_kv_heads:
        yield Complaint(
            "model.num_kv_heads",
            f"num_heads = {model.num_heads} is no multiple of num_kv_heads = {model.num_kv_heads}.",
            f"num_kv_heads = {_or(_nearest_divisors(model.num_heads, model.resolved_num_kv_heads))}",
            also=("model.num_heads",),
        )


def _sizes_with_even_heads(model: Any) -> list[str]:
    """Numbers of heads and widths, a phrase each, that give an even head size and whole groups of key/value heads."""
    width, heads = model.d_model, model.num_heads
    pairs = width // 2 if width % 2 == 0 else 0  # an even head size: as many heads as divide the pairs of channels
    near = [
        each
        for each in _nearest_divisors(pairs, heads, multiple_of=model.num_kv_heads or 1)
        if heads <= FARTHEST_PROPOSED * each and each <= FARTHEST_PROPOSED * heads
    ]
    return [
        *([f"num_heads = {_or(near)}"] if near else []),
        f"d_model = {_or(_nearest_multiples(2 * heads, width))}",
    ]


def step_is_whole_sequences(preset: Any) -> Iterator[Complaint]:
    """tokens_per_step in sequences, sequences in micro-batches."""
    train, context = preset.train, preset.model.context_tokens
    if train.tokens_per_step % context:
        yield Complaint(
            "train.tokens_per_step",
            f"tokens_per_step = {train.tokens_per_step} is no multiple of context_tokens = {context}.",
            f"tokens_per_step = {_or(_nearest_multiples(context, train.tokens_per_step))}",
            also=("model.context_tokens",),
        )
        return
    sequences = train.tokens_per_step // context
    if sequences % train.micro_batch_sequences:
        yield Complaint(
            "train.micro_batch_sequences",
            f"micro_batch_sequences = {train.micro_batch_sequences} does not divide the {sequences} "
            f"{plural(sequences, 'sequence')} of a step ({train.tokens_per_step} tokens / {context}).",
            f"micro_batch_sequences = {_or(_nearest_divisors(sequences, train.micro_batch_sequences))}",
            also=("train.tokens_per_step", "model.context_tokens"),
        )


def phases_fit_into_training(preset: Any) -> Iterator[Complaint]:
    """WSD's warm-up and decay together."""
    train = preset.train
    if train.schedule == "wsd" and train.warmup_fraction + train.decay_fraction > 1:
        yield Complaint(
            "train.decay_fraction",
            f"warmup_fraction = {train.warmup_fraction} and decay_fraction = {train.decay_fraction} are more than the "
            "whole training.",
            f"decay_fraction at most {1 - train.warmup_fraction:g}",
            also=("train.warmup_fraction",),
        )


def validation_holds_a_sequence(preset: Any) -> Iterator[Complaint]:
    """eval.tokens is rounded down to whole sequences."""
    context = preset.model.context_tokens
    if preset.eval.tokens < context:
        yield Complaint(
            "eval.tokens",
            f"tokens = {preset.eval.tokens} is less than one sequence of context_tokens = {context}.",
            f"at least {context}",
            also=("model.context_tokens",),
        )


def observers_differ(preset: Any) -> Iterator[Complaint]:
    """An observer named twice would record twice."""
    observers = preset.observe.observers
    if len(set(observers)) < len(observers):
        twice = sorted({each for each in observers if observers.count(each) > 1})
        yield Complaint("observe.observers", f"{', '.join(twice)} stands twice in observers.", "each observer once")


CHECKS = (
    heads_divide_width,
    step_is_whole_sequences,
    phases_fit_into_training,
    validation_holds_a_sequence,
    observers_differ,
)


def _nearest_divisors(number: int, wanted: int, multiple_of: int = 1) -> list[int]:
    """The divisors of `number` (multiples of another number) next to `wanted`, below and above; none of zero."""
    small = [each for each in range(1, math.isqrt(number) + 1) if number % each == 0]
    divisors = sorted(each for each in {*small, *(number // each for each in small)} if each % multiple_of == 0)
    below = [each for each in divisors if each <= wanted]
    above = [each for each in divisors if each > wanted]
    return [*below[-1:], *above[:1]]


def _nearest_multiples(unit: int, wanted: int) -> list[int]:
    """The multiples of `unit` next to `wanted`, below (if any) and above."""
    below = wanted // unit * unit
    return [below, below + unit] if below else [unit]


def _or(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


def _comma_or(phrases: Sequence[str]) -> str:
    """One, two or three."""
    *first, last = phrases
    return f"{', '.join(first)}, or {last}" if first else last
