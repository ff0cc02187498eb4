"""Runs the cases of a probe on a real engine and records the observations."""
