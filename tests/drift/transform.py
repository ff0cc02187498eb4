"""Applies the changes of a drift to recorded turns."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from msgspec.structs import replace

from tests.drift import stream_transforms, turn_transforms
from tests.drift.drifts import Change
from tests.drift.transforms import WORDS
from turngate.contract.engine_contract import EngineContract
from turngate.turn.read import read_turn
from turngate_probes.harness.observations import Observations, Turn

__all__ = ["WORDS", "drifted", "stream_transforms", "turn_transforms"]


def drifted(observed: Observations, changes: Sequence[Change]) -> Observations:
    """Apply each change to the turns that it names; raise ValueError if a change has no effect."""
    turns = dict(observed.turns)
    for change in changes:
        reported = {key: value for key, value in change.items() if key not in ("turns", "do")}
        names = [name for name in turns if fnmatchcase(name, change["turns"])]
        if not names:
            raise ValueError(f"no turn is named {change['turns']}")
        after = {name: WORDS[change["do"]](turns[name], observed, **reported) for name in names}
        if all(after[name] == turns[name] for name in names):
            raise ValueError(f"{change['do']} changes nothing")
        turns |= {name: _reread(turn, observed.contract) for name, turn in after.items()}
    return replace(observed, turns=turns)


def _reread(turn: Turn, contract: EngineContract) -> Turn:
    reading = read_turn(
        contract,
        turn.mode,
        turn.stdout,
        turn.stderr,
        turn.exit_code,
        turn_index=turn.turn_index,
        resumed=turn.resumed,
        ended=turn.ended,
    )
    return replace(turn, reading=reading)
