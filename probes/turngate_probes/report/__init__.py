"""Reports of probes and gates: what is seen while they run, and every format of what they found."""
