"""Reads turns from the bytes of an engine's streams."""
