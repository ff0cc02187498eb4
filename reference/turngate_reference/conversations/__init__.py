"""`turngate start`, `resume` and `handles`: conversations of a person at a terminal."""
