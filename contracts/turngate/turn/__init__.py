"""From the bytes of an engine's streams to a turn."""
