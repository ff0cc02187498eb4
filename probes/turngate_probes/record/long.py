"""Writes a very long prompt as its recipe, so that recordings stay small."""

from typing import TypeAlias

from turngate_probes.cases import FILLER

LONG = 4000
MARK = "<prompt>"

Recipe: TypeAlias = dict[str, str | int]


def shortened(text: str) -> str | Recipe:
    """Give a long text made of the cases' filler as what stands before it, its length, and what stands after."""
    start = text.find(FILLER)
    if len(text) <= LONG or start < 0:
        return text
    end = start
    while end < len(text) and text[end] == FILLER[(end - start) % len(FILLER)]:
        end += 1
    return {"before": text[:start], "repeated": FILLER, "characters": end - start, "after": text[end:]}


def lengthened(recipe: str | Recipe) -> str:
    """Give the text of a recipe; a plain text is its own."""
    if isinstance(recipe, str):
        return recipe
    repeated, characters = str(recipe["repeated"]), int(recipe["characters"])
    filled = (repeated * (characters // len(repeated) + 1))[:characters]
    return f"{recipe['before']}{filled}{recipe['after']}"
