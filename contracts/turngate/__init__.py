"""turngate: contracts for coding-agent CLIs, and the pure functions that apply them.

Nothing here starts a process, reads a clock or opens a socket, except in `turngate.process`.
"""
