"""Sticky engine processes, kept over several turns on the protocols that the engines speak."""
