"""Checks of replacing one release with another in the same home: do open sessions survive?"""

from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import SkippedError, check, check_carried, fail_if, how_it_ended, passed, went_well
from turngate_probes.harness.observations import Observations, Turn

CASE = "crossing"


@check("upgrade.resume", CASE)
def upgrade_resume(observed: Observations) -> Finding:
    """The newer release resumed a session of the older one, under its id, and sent the older turn's nonce."""
    first = observed.turn(f"{CASE}/old-first")
    if first.session is None:
        raise SkippedError(f"the older release started no session that could be resumed ({how_it_ended(first)})")
    return _carried(first, observed.turn(f"{CASE}/new-again"))


@check("rollback.resume", CASE)
def rollback_resume(observed: Observations) -> Finding:
    """The older release resumed a session of the newer one, under its id, and sent the newer turn's nonce."""
    return _carried(observed.turn(f"{CASE}/new-first"), observed.turn(f"{CASE}/old-again"))


@check("rollback.touched", CASE)
def rollback_touched(observed: Observations) -> Finding:
    """The older release resumed its own session after the newer one had added a turn, and sent both nonces."""
    first, again, third = (observed.turn(f"{CASE}/{step}") for step in ("old-first", "new-again", "old-third"))
    return _carried(first, third, again)


def _carried(first: Turn, turn: Turn, *more: Turn) -> Finding:
    """Check that the turn succeeded, under the first one's session id, and sent all earlier turns."""
    fail_if(turn.hung, how_it_ended(turn), turn, symptom="hang")
    fail_if(not went_well(turn), how_it_ended(turn), turn, symptom="refused")
    check_carried(turn, first, *more)
    fail_if(turn.session is None, f"resumed {turn.resumed}, but reported no session id", turn)
    another = f"resumed {turn.resumed}, but reported {turn.session}"
    fail_if(turn.session != turn.resumed, another, turn, symptom="new-handle")
    return passed(f"{', '.join(sorted(past.nonce for past in (first, *more)))} sent again", first, *more, turn)
