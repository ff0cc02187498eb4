"""Reports of probes and gates: the progress that they show, and every format of their results."""
