"""Sticky engine processes, which run several turns, over the protocols that the engines speak."""
