"""What is kept of runs: one SQLite file."""
