"""Kept engine processes, which run several turns, and the protocols that the engines speak."""
