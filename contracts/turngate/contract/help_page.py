"""What of a contract a help page fails to name."""

import re

from turngate.contract.structs import EngineContract, HelpPage


def missing(page: HelpPage, printed: str) -> tuple[str, ...]:
    """Return the names that the page should hold as whole words, and does not."""
    return tuple(n for n in page.names if not re.search(rf"(?<![\w-]){re.escape(n)}(?![\w-])", printed))


def resume_names(contract: EngineContract, page: HelpPage) -> frozenset[str]:
    """Return the names on a page that only a resume needs.

    They are the flags and subcommands that the resume argv has and the start argv lacks, and every name on the help
    page of such a subcommand.
    """
    launch = contract.launch
    words = {token for token in launch.resume if "{" not in token} - {*launch.start}
    return frozenset(page.names if words & {*page.argv} else words & {*page.names})
