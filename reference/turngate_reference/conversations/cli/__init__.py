"""The commands for a terminal: `turngate start`, `resume` and `handles`."""
