"""How long tests wait for what must happen."""

PATIENCE = 120.0  # seconds; it only keeps a test from waiting forever, and is far more than a busy machine needs
