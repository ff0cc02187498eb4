"""Records real releases: runs every case and saves each turn, without text that differs from run to run."""
