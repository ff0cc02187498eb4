"""Drafts of contracts: an unknown CLI is tried against the stub model, and its output is read."""
