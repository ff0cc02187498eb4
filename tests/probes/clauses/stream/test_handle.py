"""Checks of the session id, on hand-made turns."""

import json

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate import load_contract, read_turn
from turngate.contract.clauses import Reason
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import NotObservedError

LATE = b'{"type":"turn.started"}\n' + t.printed()
RENAMED = t.printed().replace(b"thread_id", b"session_id")
SECOND = t.printed() + t.printed(t.ANOTHER)
UNSAFE = t.printed("--yolo")
UNFAMILIAR = t.printed("management")


@pytest.mark.parametrize("clause", ["handle.present", "handle.place", "handle.shape"])
def test_a_good_first_turn_passes(clause: str) -> None:
    """A session id in the right place and shape passes every clause of the id."""
    finding = t.check(clause, t.turn("main/first"))
    assert finding.ok
    assert finding.evidence == ("main/first",)


@pytest.mark.parametrize("stdout", [RENAMED, t.printed(None), b""], ids=["renamed", "left out", "silent"])
def test_an_id_that_is_missing_is_not_present(stdout: bytes) -> None:
    """Without the field that the contract names, the session id is not present."""
    finding = t.check("handle.present", t.turn("main/first", stdout))
    assert not finding.ok
    assert "thread_id" in finding.detail


def test_an_id_that_can_not_be_passed_on_is_not_present() -> None:
    """A value that looks like a flag is no session id."""
    finding = t.check("handle.present", t.turn("main/first", UNSAFE))
    assert not finding.ok
    assert "'--yolo' looks like an option" in finding.detail


@pytest.mark.parametrize("stdout", [LATE, SECOND, UNFAMILIAR], ids=["late", "second", "unfamiliar"])
def test_an_id_in_the_wrong_place_or_shape_is_present(stdout: bytes) -> None:
    """An id in the wrong place or shape is still present; other clauses check place and shape."""
    assert t.check("handle.present", t.turn("main/first", stdout)).ok


@pytest.mark.parametrize(
    "stdout, stderr, detail",
    [
        (LATE, b"", "not in the first"),
        (SECOND, b"", "a second, different id"),
        (t.printed(None), json.dumps({"type": "thread.started", "thread_id": t.SESSION}).encode(), "is on stderr"),
    ],
    ids=["late", "second", "other stream"],
)
def test_an_id_elsewhere_is_out_of_place(stdout: bytes, stderr: bytes, detail: str) -> None:
    """An id in a later record, a second id, and an id on the other stream are out of place."""
    finding = t.check("handle.place", t.turn("main/first", stdout, stderr=stderr))
    assert not finding.ok
    assert detail in finding.detail


def test_a_list_instead_of_a_document_is_out_of_place() -> None:
    """Without a setting of a user that explains it, a list breaks whoever reads a document."""
    contract = load_contract("claude", "2.1.330")
    end = {"type": "result", "subtype": "success", "is_error": False, "session_id": t.SESSION, "result": "hi"}
    turn = t.turn("main/first", json.dumps([{"type": "system"}, end]).encode())
    reading = read_turn(contract, turn.mode, turn.stdout, b"", 0)
    assert reading.session
    finding = t.check("handle.place", replace(turn, reading=reading))
    assert (finding.ok, "is in record 2, not in the first" in finding.detail) == (False, True)


def test_place_holds_for_the_first_turn_even_if_it_failed() -> None:
    """The id must be in its place even if the first turn ends with a bad exit code."""
    assert not t.check("handle.place", t.turn("main/first", LATE, exit_code=1)).ok


def test_place_holds_for_first_turns_of_other_cases() -> None:
    """One first turn of any case with the id out of place fails the clause, and is its evidence."""
    finding = t.check("handle.place", t.turn("main/first"), t.turn("auto/first", LATE))
    assert (finding.ok, finding.evidence) == (False, ("auto/first",))


def test_place_leaves_resumed_failed_and_imitating_turns_alone() -> None:
    """Resumed, failed and imitating turns are not checked for the id's place."""
    others = (t.refused("bad-handles/first"), t.turn("imitation/first", SECOND), t.resumed("auto/again", stdout=LATE))
    assert t.check("handle.place", t.turn("main/first"), *others).ok


def test_an_unfamiliar_id_fails_its_shape_alone() -> None:
    """An id of a shape that the contract doesn't know is in its place all the same."""
    turn = t.turn("main/first", UNFAMILIAR)
    finding = t.check("handle.shape", turn)
    assert not finding.ok
    assert "'management' doesn't match" in finding.detail
    assert t.check("handle.place", turn).ok


@pytest.mark.parametrize("clause", ["handle.present", "handle.place", "handle.shape"])
def test_without_a_first_turn_nothing_is_said(clause: str) -> None:
    """Without an observed first turn the clause is not run, and the reason is reported."""
    with pytest.raises(NotObservedError, match="main/first was not observed: no disk"):
        t.check(clause, stopped={"main": Obstacle("no disk", Reason.MACHINE)})
