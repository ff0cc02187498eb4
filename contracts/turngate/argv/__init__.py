"""Builds the arguments and environment of an engine, and detects auto-approve flags."""
