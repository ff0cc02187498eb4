"""Checks of turns with a real model, which nobody watches on the wire."""

import re

from turngate.contract.verdict import Finding
from turngate_probes.clauses.registry import EXCERPT, check, failed, how_it_ended, passed
from turngate_probes.harness.observations import Observations


@check("live.context-recalled", "main")
def context_recalled(seen: Observations) -> Finding:
    """The answer of the resumed turn held the random word of the first one."""
    first, turn = seen.turn("main/first"), seen.turn("main/again")
    said = turn.reading.final_text or ""
    if first.nonce.casefold() not in re.findall(r"[\w-]+", said.casefold()):
        shown = f"it answered {said.strip()[:EXCERPT]!r}" if said else how_it_ended(turn)
        return failed(f"the answer does not hold the word {first.nonce} of the first turn: {shown}", first, turn)
    return passed(f"{first.nonce} was told and given back", first, turn)
