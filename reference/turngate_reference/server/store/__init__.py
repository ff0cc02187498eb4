"""Stores runs in one SQLite file."""
