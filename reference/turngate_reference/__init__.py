"""The reference orchestrator, driven by the same contracts as the probes."""
