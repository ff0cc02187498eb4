"""Runs an engine process, streams its output, and ends its whole process tree."""
