"""The simulator: an executable that behaves like one release, as its contract describes it, without the real CLI.

It reads its arguments with the contract's templates, saves sessions in the contract's store, gets its answers from a
model backend, and prints what `simulations/<engine>.yaml` describes, including declared deviations.
"""
