"""Output schemas of callers: checked and applied in a process with limits, since one can take any time and memory."""
