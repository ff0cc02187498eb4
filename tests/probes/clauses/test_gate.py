"""Checks of two releases in a shared HOME."""

from typing import Any

import pytest

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.verdict import Finding
from turngate.model import Ended
from turngate_probes.clauses.checks import SkippedError

FIRST, AGAIN, THIRD = (f"crossing/{step}" for step in ("old-first", "new-again", "old-third"))


def upgraded(**changes: Any) -> Finding:
    """Check a session of the older release that the newer one resumed."""
    usual: dict[str, Any] = {"resumed": t.SESSION, "carries": (FIRST,)}
    return t.check("upgrade.resume", t.turn(FIRST), t.turn(AGAIN, **usual | changes))


def test_a_session_that_is_carried_over_passes() -> None:
    """A session passes if the request holds the earlier turn's nonce and the id stays the same."""
    assert upgraded().ok
    back = t.turn("crossing/new-first"), t.resumed("crossing/old-again", "crossing/new-first")
    assert t.check("rollback.resume", *back).ok


def test_an_older_release_without_sessions_has_none_to_carry_over() -> None:
    """The clause is unsupported if the older release started no session."""
    with pytest.raises(SkippedError, match="started no session"):
        t.check("upgrade.resume", t.turn(FIRST, t.printed(None)))


@each(
    "changes, symptom",
    [
        ({"ended": Ended.TIMEOUT, "exit_code": None}, "hang"),
        ({"exit_code": 1}, "refused"),
        ({"carries": (), "stdout": t.printed(t.ANOTHER)}, "fresh-session"),
        ({"carries": ()}, "context-lost"),
        ({"requests": ()}, "refused"),
        ({"stdout": t.printed(t.ANOTHER)}, "new-handle"),
    ],
)
def test_a_session_that_is_lost_says_how(changes: dict[str, Any], symptom: str) -> None:
    """Each way to lose a session has its own symptom."""
    finding = upgraded(**changes)
    assert (finding.ok, finding.symptoms) == (False, (symptom,))


def test_a_session_that_was_touched_must_hold_the_turn_of_the_other_release() -> None:
    """After the rollback the session must contain the newer release's turn as well."""
    reported = t.turn(FIRST), t.resumed(AGAIN, FIRST)
    assert t.check("rollback.touched", *reported, t.resumed(THIRD, FIRST, AGAIN)).ok
    finding = t.check("rollback.touched", *reported, t.resumed(THIRD, FIRST))
    assert (finding.ok, finding.symptoms) == (False, ("context-lost",))
