"""What stands in a report, in which section, whatever it is written as: a page, Markdown or LaTeX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from attnres_cli.report.compare import compare_document
from attnres_cli.report.compared_run import ComparedRun
from attnres_cli.report.comparison import Comparison
from attnres_cli.report.document import Document, Notice
from attnres_cli.report.headlines import Claim, claims, claims_of_notices, headline, headline_of
from attnres_cli.report.numbers import short_count
from attnres_cli.report.phrases import counted
from attnres_cli.report.picture import Picture
from attnres_cli.report.pictures import builders
from attnres_cli.report.pictures_of_sweeps import pictures_of_sweep
from attnres_cli.report.provenance import Provenance, provenance
from attnres_cli.report.sweep_documents import sweep_document
from attnres_cli.report.sweep_results import SweepDocument
from attnres_cli.report.table import Table

Item = Table | Notice | Picture
MOST_ARMS_IN_A_TITLE = 2


@dataclass(frozen=True)
class Section:
    """anchor: its name in links. lead: what to look for, in a sentence or two."""

    anchor: str
    heading: str
    lead: str
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Report:
    """A title, what it comes to, the sections, and where the figures come from.

    facts: (what, how much) beside the title. baseline: what the claims are against, None where there are no arms.
    claims: empty where nothing is claimed. checks: commands that print the same numbers.
    """

    title: str
    headline: str
    facts: tuple[tuple[str, str], ...]
    claims: tuple[Claim, ...]
    sections: tuple[Section, ...]
    provenance: Provenance
    baseline: str | None = None
    checks: tuple[str, ...] = ()
    document: Document = field(default_factory=lambda: Document("report", ()))


@dataclass(frozen=True)
class _Plan:
    """A section to be: which tables and which files of report/pictures/ belong to it."""

    anchor: str
    heading: str
    lead: str
    tables: tuple[str, ...] = ()
    pictures: tuple[str, ...] = ()


_PLANS = (
    _Plan(
        "what-differs", "What is compared",
        "Which runs, and every key in which they differ: a verdict needs that nothing but the residual scheme does.",
        ("runs", "configuration"),
    ),
    _Plan(
        "loss", "Loss",
        "The difference at the end of the schedule is what counts. Before the learning rate has decayed, curves may "
        "cross.",
        ("verdict", "equal_budgets", "loss", "horizon"), ("loss",),
    ),
    _Plan("cost", "Cost", "What a training step takes, the arms timed in turn on one machine.", ("cost",)),
    _Plan(
        "magnitudes", "Magnitudes and gradients through depth",
        "A stream that grows with depth drowns what late layers add; gradients that differ widely train layers "
        "unequally.",
        ("magnitudes",), ("magnitudes", "gradients"),
    ),
    _Plan(
        "depth-weights", "What each layer reads",
        "Schemes that mix over depth give every earlier output a weight. A weight is not an importance: see below.",
        ("depth_weights",), ("depth-weights", "mixing"),
    ),
    _Plan(
        "importance", "Which layers matter",
        "Loss when a source or a layer is taken away, on fixed validation tokens. What can be cut for little loss did "
        "little.",
        (), ("importance", "removal"),
    ),
    _Plan(
        "depth", "What depth does",
        "How good the prediction is when the model stops early, and how alike tokens and layers become.",
        (), ("lens", "smoothing"),
    ),
)  # fmt: skip
_REST = _Plan("more", "More", "", (), ())
# Files of report/pictures/ that show what `attnres probe` measures.
PROBED = ("mixing", "importance", "removal", "lens", "smoothing")


def comparison_report(comparison: Comparison, *, title: str | None = None, words: str = "") -> Report:
    """Everything known of some runs beside a baseline. words: what named them on the command line, for commands."""
    found = claims(comparison)
    document = compare_document(comparison)
    pictures = {module.__name__.rpartition(".")[2].replace("_", "-"): module.build(comparison) for module in builders()}
    sections = [*_sections(document.tables, pictures)]
    if missing := [name for name in PROBED if not pictures.get(name)]:
        sections.append(_not_probed(missing, words))
    baseline = comparison.baseline.title if not comparison.by_seed else comparison.baseline.label
    return Report(
        title=title or _title(comparison),
        headline=headline(found, baseline, comparison.noun),
        facts=_facts(comparison),
        claims=tuple(found),
        sections=tuple(sections),
        provenance=_provenance(comparison),
        baseline=baseline,
        checks=(f"attnres compare {words}",) if words else (),
        document=document,
    )


def sweep_report(
    document: SweepDocument, manifests: Mapping[str, Mapping[str, object]], comparison: Comparison | None, *,
    title: str | None = None, words: str = "",
) -> Report:  # fmt: skip
    """A sweep's results. manifests: of its runs by their folders. comparison: of its runs, where they are arms of one
    shape; then its verdict is the report's."""
    shown = sweep_document(document)
    notices = [block for block in shown.blocks if isinstance(block, Notice) and block.lines]
    claimed = [notice for notice in notices if notice.tone != "plain"] if comparison is None else []
    section = Section(
        "sweep",
        "The sweep",
        "Every cell of the sweep, and what its seeds show.",
        (
            *(notice for notice in notices if notice not in claimed),
            *pictures_of_sweep(document),
            *(block for block in shown.blocks if isinstance(block, Table)),
        ),
    )
    checks = (f"attnres sweep show {words}",)
    if comparison is not None:
        inner = comparison_report(comparison, title=title, words=words)
        after = 1 + next((place for place, each in enumerate(inner.sections) if each.anchor == "loss"), 0)
        sections = (*inner.sections[:after], section, *inner.sections[after:])
        facts = (("sweep", str(document["name"])), *inner.facts)
        return replace(inner, facts=facts, sections=sections, checks=(*checks, *inner.checks))
    found = claims_of_notices(claimed)
    finished = sum(run["status"] == "finished" for run in document["runs"])
    return Report(
        title=title or document["name"],
        headline=headline_of(found, f"{finished} of {counted(len(document['runs']), 'run')} finished."),
        facts=_sweep_facts(document),
        claims=tuple(found),
        sections=(section,),
        provenance=provenance(manifests, {}, first=(str(document["command"]),)),
        checks=checks,
        document=shown,
    )


def only_tables(report: Report, keys: Sequence[str]) -> Report:
    """The report with these tables and no picture. Raises UserError for a table it does not have."""
    items = [item for section in report.sections for item in section.items if isinstance(item, Table)]
    kept = Document("report", tuple(items)).only_tables(keys).blocks
    chosen = [
        replace(section, items=tuple(item for item in section.items if item in kept)) for section in report.sections
    ]
    return replace(report, sections=tuple(section for section in chosen if section.items))


def all_pictures(report: Report) -> list[Picture]:
    return [item for section in report.sections for item in section.items if not isinstance(item, Table | Notice)]


# ---------------------------------------------------------------------- sections


def _sections(tables: Mapping[str, Table], pictures: Mapping[str, Sequence[Picture]]) -> list[Section]:
    """In the order of the plans; what no plan knows comes last, so that nothing is lost."""
    planned = {name for plan in _PLANS for name in (*plan.tables, *plan.pictures)}
    rest = _Plan(
        _REST.anchor, _REST.heading, _REST.lead,
        tuple(key for key in tables if key not in planned), tuple(name for name in pictures if name not in planned),
    )  # fmt: skip
    found = []
    for plan in (*_PLANS, rest):
        shown = [picture for name in plan.pictures for picture in pictures.get(name, ())]
        items = (*shown, *(tables[key] for key in plan.tables if key in tables))
        if items:
            found.append(Section(plan.anchor, plan.heading, plan.lead, items))
    return found


def _not_probed(missing: Sequence[str], words: str) -> Section:
    names = ", ".join(name.replace("-", " ") for name in missing)
    command = f"attnres probe {words}".strip()
    line = f"Not measured for these runs: {names}. Measure with {command}, then write the report again."
    return Section("not-probed", "Not probed", "", (Notice("Further pictures need probes", (line,)),))


# ---------------------------------------------------------------------- titles and facts


def _title(comparison: Comparison) -> str:
    others = [arm.title for arm in comparison.others]
    names = " and ".join(others) if len(others) <= MOST_ARMS_IN_A_TITLE else f"{len(others)} {comparison.noun}s"
    return f"{names} against {comparison.baseline.title}"


def _facts(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    lead = comparison.baseline.lead
    manifest, environment = lead.manifest, lead.manifest.get("environment") or {}
    model = manifest.get("model") or {}
    parameters = model.get("parameters")
    seeds = sorted({run.seed for run in comparison.runs if run.seed is not None})
    found = [
        ("preset", manifest.get("preset_name")),
        ("parameters", short_count(parameters) if isinstance(parameters, int) else None),
        ("shape", _shape(model)),
        ("tokens per run", f"{lead.horizon_tokens:,}" if lead.horizon_tokens else None),
        ("runs", str(len(comparison.runs))),
        ("seeds", str(len(seeds)) if seeds else None),
        ("device", environment.get("device_name")),
    ]
    return tuple((what, str(value)) for what, value in found if value)


def _shape(model: Mapping[str, object]) -> str | None:
    blocks, width = model.get("transformer_blocks"), model.get("d_model")
    return f"{blocks} blocks × {width}" if blocks and width else None


def _sweep_facts(document: SweepDocument) -> tuple[tuple[str, str], ...]:
    found = [
        ("sweep", document["kind"].replace("_", " ")),
        ("preset", document["preset"]["name"]),
        ("arms", str(len(document["arms"]))),
        ("cells", str(len(document["cells"]))),
        ("seeds", str(len(document["seeds"]))),
        ("tokens per run", f"{document['tokens']:,}" if document.get("tokens") else None),
    ]
    return tuple((what, value) for what, value in found if value)


def _provenance(comparison: Comparison) -> Provenance:
    runs = [*comparison.runs, *(each.run for each in comparison.set_aside)]
    labels = [run.label if comparison.by_seed else run.title for run in runs]
    presets = {arm.title: _resolved(arm.lead) for arm in (comparison.baseline, *comparison.others)}
    return provenance(
        {label: run.manifest for label, run in zip(labels, runs, strict=True)},
        {title: toml for title, toml in presets.items() if toml},
    )


def _resolved(run: ComparedRun) -> str:
    """The preset as it was trained, without the comments that explain every key."""
    try:
        lines = (run.path / "resolved.toml").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return "\n".join(line for line in lines if line.strip() and not line.startswith("#"))
