"""Two turns with the user's own account: what is run is told before, and nothing secret is kept."""
