"""How a claim is tested, one file each: a plan's claim names it under `test`.

A file defines

    class Settings(BaseModel)                             the keys of such a claim, beside those that all have
    def runs(settings) -> tuple[str, ...]                 the runs it needs, as "cell/arm"
    def benches(settings) -> tuple[str, ...]              the benches it needs, by their key in the plan
    def assumed(settings, prior, seeds) -> Assumed | None what its power follows from; None: it does not rest on seeds
    def judge(settings, evidence) -> Finding | None       None where too few pairs are left
    def number(settings, value) -> str                    an estimate, or an end of its interval, as people read it
"""
