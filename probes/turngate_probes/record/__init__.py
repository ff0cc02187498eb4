"""Records real releases: runs every case and writes down each turn, without what differs from run to run."""
