"""Rewrites single places of a YAML text, so that its comments, its order and its layout stay as they are."""

import re
from collections.abc import Collection, Iterable

from turngate.contract.yaml_text import Node

Edit = tuple[int, int, str]
"""Replace the text from an index up to another one."""
_ANCHOR = re.compile(r"&\S+\s+")
_ALIAS = re.compile(r"\s*:\s*\*[^\s,\]}]+")
_ALIAS_ITEM = re.compile(r"-[ \t]+\*\S+")


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits. One that is inside another, or the same as another, is left out; removals may overlap."""
    parts, at = list[str](), 0
    for start, end, new in sorted({*edits}, key=lambda edit: (edit[0], -edit[1])):
        if start >= at or end > at:
            parts += (text[at:start], new)
            at = end
    return "".join((*parts, text[at:]))


def replaced(text: str, node: Node, new: str) -> Edit:
    """Return the edit that writes a scalar anew. Its anchor stays."""
    anchor = _ANCHOR.match(text, node.start)
    start = anchor.end() if anchor else node.start
    return start, start + len(text[start : node.end].rstrip()), new


def without_pairs(text: str, mapping: Node, gone: Collection[int]) -> list[Edit]:
    """Return the edits that remove the pairs of a mapping with these indices. What comments above them say stays."""
    if len(gone) == len(mapping.pairs):
        start, end = mapping.pairs[0][0].start, _end_of_pair(text, *mapping.pairs[-1])
        return [(start, end, "" if mapping.is_flow else "{}")]
    edits, kept = list[Edit](), [i for i in range(len(mapping.pairs)) if i not in gone]
    for i in sorted(gone):
        key, value = mapping.pairs[i]
        start, end = key.start, _end_of_pair(text, key, value)
        before = text.rfind("\n", 0, start) + 1
        following = next((mapping.pairs[k][0].start for k in kept if k > i), None)
        if not mapping.is_flow and not text[before:start].strip():
            edits.append(_lines(text, before, end))
        elif following is not None:
            edits.append((start, following, ""))
        else:
            edits.append((_end_of_pair(text, *mapping.pairs[kept[-1]]), end, ""))
    return edits


def _lines(text: str, start: int, end: int) -> Edit:
    """Return the edit that removes whole lines, and one of the blank lines around them."""
    line_end = text.find("\n", end)
    after = line_end + 1 if line_end >= 0 else len(text)
    is_alone = text.endswith(("\n\n", "\n\r\n"), 0, start)
    if is_alone and (blank := re.compile(r"\r?\n").match(text, after)):
        after = blank.end()
    elif is_alone and after == len(text):
        start = len(text[:start].rstrip()) + 1
    return start, after, ""


def _end_of_pair(text: str, key: Node, value: Node) -> int:
    if value.start < key.end:  # an alias: the value is written elsewhere
        alias = _ALIAS.match(text, key.end)
        return alias.end() if alias else key.end
    return _end(text, value)


def _end(text: str, node: Node) -> int:
    """Return where a value ends, without what follows a block."""
    if node.is_flow or not (node.items or node.pairs):
        return node.start + len(text[node.start : node.end].rstrip())
    if node.pairs:
        return _end_of_pair(text, *node.pairs[-1])
    at = node.start
    for item in node.items:
        if item.start >= at:
            at = _end(text, item)
        elif alias := _ALIAS_ITEM.search(text, at):
            at = alias.end()
    return at
