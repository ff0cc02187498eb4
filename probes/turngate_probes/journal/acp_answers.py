"""Reads what an ACP agent said that it can do, and what a new session offers: capabilities, logins, modes, options.

Models are left out, since those that a session offers are those of the sandbox, too. An answer is named `response to
initialize`, and its parts as in `response to session/new: modes.availableModes.plan`.
"""

import json
from collections.abc import Iterator
from typing import Any

MOST = 1000
LONGEST = 160
_DEEPEST = 8
_IDS = ("id", "modelId", "value")
# the session's own, what is said to people, and what depends on the model
_IGNORED = {*_IDS, "sessionId", "agentInfo", "name", "title", "description", "_meta", "models"}
_OF_MODEL = {"model", "thought_level"}


def answers(text: str) -> dict[str, str]:
    """Return the parts of answers, one to a line, each with its value; what is not an answer says nothing."""
    found = dict[str, str]()
    for line in text.splitlines():
        try:
            answer = json.loads(line)
            method, result = str(answer["method"]), answer["result"]
        except (ValueError, RecursionError, TypeError, KeyError):
            continue
        name = f"response to {method}"[:LONGEST]
        found[name] = ""
        found |= {f"{name}: {path}"[:LONGEST]: value[:LONGEST] for path, value in _parts(result, "", _DEEPEST) if path}
    return found if len(found) <= MOST else {}


def _parts(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield each part of an object, and each member of a list by its id."""
    if isinstance(value, dict):
        members = [(f"{path}.{key}" if path else str(key), value[key]) for key in sorted(value) if key not in _IGNORED]
        if not members:
            yield path, ""
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        kept = [each for each in value if isinstance(each, dict) and each.get("category") not in _OF_MODEL]
        named = [(next((each[key] for key in _IDS if key in each), None), each) for each in kept]
        members = [(f"{path}.{name}", each) for name, each in named if name is not None]
    else:
        yield path, "|".join(map(str, value)) if isinstance(value, list) else _word(value)
        return
    for inner, each in members if depth else ():
        yield from _parts(each, inner, depth - 1)


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
