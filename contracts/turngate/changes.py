"""Spells out claims that change with releases: a base, and what each later change sets."""

from collections.abc import Mapping
from typing import Any

_OF_CLAIM = ("since", "until", "evidence", "unverified", "note")


def stretches(claim: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the whole claim for each stretch of releases over which it stays the same, the oldest first.

    A change replaces the keys under its `set`, and removes those that are null there. Its evidence and note replace
    those before it.
    """
    found = [{key: value for key, value in claim.items() if key != "changes"}]
    for change in claim.get("changes", ()):
        before = found[-1]
        kept = {key: value for key, value in before.items() if key not in _OF_CLAIM}
        changed = {key: value for key, value in (kept | change.get("set", {})).items() if value is not None}
        about = {key: change[key] for key in _OF_CLAIM if key in change}
        found.append(changed | about | ({"until": before["until"]} if "until" in before else {}))
        before["until"] = change["since"]
    return found


def bare(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a claim says, without its range, evidence and note."""
    return {key: value for key, value in claim.items() if key not in _OF_CLAIM}
