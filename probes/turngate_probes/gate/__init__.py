"""Whether one release may take the place of another: both probed, crossed on one home, compared, and judged."""
