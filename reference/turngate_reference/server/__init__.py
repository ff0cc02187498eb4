"""`turngate serve`: the orchestrator behind its HTTP interface."""
