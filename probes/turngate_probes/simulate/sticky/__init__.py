"""A simulated sticky process, over the protocols that the real engines speak."""
