"""Finds an engine on this machine and runs one attempt at a turn."""
