"""Many releases of one engine: choosing and probing them, saving and merging results, bisecting."""
