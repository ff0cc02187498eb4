"""The two forms of every bench: full for figures to state, short to see that it still runs."""

from typing import NamedTuple

SHORT_LABEL = "short form, to see that it runs: these figures say nothing"


class Tally(NamedTuple):
    """How many there are of something in each form."""

    full: int
    short: int

    def of(self, *, short: bool) -> int:
        """Return the number for one form."""
        return self.short if short else self.full
