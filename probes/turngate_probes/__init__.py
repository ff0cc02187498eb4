"""Probes: run the clauses of a contract against the real CLIs."""
