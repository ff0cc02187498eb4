"""The colours of verdicts and results; the words alone say everything."""

STYLES = {
    "compatible": "green",
    "degraded": "yellow",
    "unanswered": "magenta",
    "broken": "bold red",
    "fail": "bold red",
    "deviates": "yellow",
    "unsupported": "yellow",
    "not_run": "magenta",
    "skipped": "magenta",
    "stale": "cyan",
    "not asked": "magenta",
}


def style_of(word: str) -> str:
    """Give the style of a verdict or result; none for other words."""
    return STYLES.get(word, "")
