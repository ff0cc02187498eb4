"""The simulator: an executable that behaves like one release, as its contract describes it, so that no CLI is needed.

It reads its arguments by the contract's templates, keeps sessions where the contract's store says, asks a model backend
for its answers and prints what `simulations/<engine>.yaml` describes, declared deviations included.
"""
