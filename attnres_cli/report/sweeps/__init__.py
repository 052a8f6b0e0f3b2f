"""How sweeps are shown: one file each, found by discovery; sweep.json names it under `report`.

A file defines, over the document in sweep.json (docs/sweep.md) and nothing else,

    SHOWS_IMPOSSIBLE: bool    whether its own tables have a row for everything impossible, with the reason
    def blocks(document, width_columns) -> list[Block]        results: tables and sentences
    def plan_blocks(document, width_columns) -> list[Block]   what there is before anything runs
    def payload(document) -> dict                             what --json says beyond the document and the tables
"""
