"""The observations and results of a probe, as events on disk."""
