"""Checks and applies callers' output schemas in a limited process, since a schema can take any time and memory."""

OUT_OF_MEMORY = 3  # the exit code of a check
