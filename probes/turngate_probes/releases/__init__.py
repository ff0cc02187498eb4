"""Releases of engines: chosen, found, installed, cached."""
