"""What of a contract a help page fails to name."""

import re

from turngate.contract import HelpPage


def missing(page: HelpPage, printed: str) -> tuple[str, ...]:
    """Give the names that the page should hold as whole words, and does not."""
    return tuple(n for n in page.names if not re.search(rf"(?<![\w-]){re.escape(n)}(?![\w-])", printed))
