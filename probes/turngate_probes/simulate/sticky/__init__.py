"""A simulated engine as one process over several turns, on the protocols that the real engines speak."""
