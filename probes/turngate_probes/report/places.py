"""Where a contract says what a clause checks: its file, relative to the checkout, and the line of the claim."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from turngate import load
from turngate.claims import about
from turngate.load import Contract

FOLDER = "contracts/turngate/engines"


def place_of(release: Mapping[str, Any], clause_id: str) -> tuple[str, int] | None:
    """Give file and line of the first claim that names the clause as evidence (else line 1).

    None if there is no contract for the engine: reports are read from files too.
    """
    engine = release["engine"]
    if engine not in load.engines():
        return None
    lines = _lines(engine, clause_id, release["version"])
    return f"{FOLDER}/{engine}.yaml", min(lines, default=1)


@cache
def _lines(engine: str, clause_id: str, version: str | None) -> tuple[int, ...]:
    document = _contract(engine).document
    return tuple(document.marks[path][0] for path in about(document, clause_id, version))


@cache
def _contract(engine: str) -> Contract:
    return load.contract(engine)
