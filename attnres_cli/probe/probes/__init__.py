"""Probes: what to find out about a trained model. One file each, found because it is there.

A file defines

    TITLE: str                                   what it measures, as a heading
    NOTHING: str                                 only where `measure` may return None: what the scheme lacks, a sentence
    measure(subject: Subject) -> Findings | None

A probe leaves weights and gradients as they were.
"""
