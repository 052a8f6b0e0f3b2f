"""Engines of `attnres tune`: one file each, found by discovery.

A file defines

    POINTS_MAY_GROW: bool       whether a tune goes on under its name with more --points
    TAKES_TRIALS: bool          whether --trials says how many every arm gets
    FEWEST_TRIALS: int          fewer are no search
    def check_installed() -> None                        raises UserError with the line that installs what it needs
    def rule(search, around) -> str                      where its trials lie, as a sentence; around: the preset's rate
    def all_trials(search, *, has_query)                 as many trials as an arm will get, for the price
    def next_trials(search, losses, *, has_query)        all trials wanted by the losses that are known
    def outcome(search, losses, *, has_query)            what they found so far; without any library

`next_trials` is a function of the finished trials and their losses alone, so that a tune that was stopped goes on as if
it never had been. Everything else that makes a tune is shared: analysis/tuning.py says what a search and an optimum
are, sweep/kinds/tune.py makes runs of trials.
"""
