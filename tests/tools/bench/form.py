"""The two forms of every bench: full for the published figures, short to check that it works."""

from typing import NamedTuple

SHORT_LABEL = "short form, to see that it runs: these figures say nothing"


class Tally(NamedTuple):
    """The number of items in each form."""

    full: int
    short: int

    def of(self, *, short: bool) -> int:
        """Return the number for one form."""
        return self.short if short else self.full
