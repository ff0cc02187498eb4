"""Many releases of one engine: which there are, probing them, keeping what came out, joining it, searching in it."""
