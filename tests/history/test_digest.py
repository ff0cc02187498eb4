"""What the history keeps of a release's journal."""

from collections.abc import Iterable
from typing import Any

from tests.probes.report import journals as j
from tests.tools.history.digest import known_release
from turngate.contract.clauses import Result
from turngate.contract.verdict import Verdict
from turngate.history import KnownRelease, KnownResult
from turngate_probes.journal.events import Event

AT = "2026-11-24T10:00:00.000+00:00"


def known(*events: Event, started: dict[str, Any] | None = None, **finished: Any) -> KnownRelease:
    """Return what is kept of a release with these events."""
    whole: Iterable[Event] = (
        j.started(at=AT, **(started or {})),
        j.planned(integrity="sha512-x"),
        *events,
        j.finished(**finished),
    )
    return known_release(whole)


def test_a_release_is_kept_with_its_results() -> None:
    """It says what was tested when, with what, and how it came out."""
    caveat = j.clause("backend.failure-told", "deviates", action="", detail="the turn never ends")
    release = known(*j.clauses(backend_failure_told=caveat), hosts=["x.example"])
    assert (release.version, release.measured) == ("0.169.0", "2026-11-24")
    assert (release.integrity, release.turngate, release.contract) == ("sha512-x", "0.1.0", "1")
    assert (release.verdict, release.profile, release.why) == (Verdict.COMPATIBLE, "resumable", "")
    assert release.clauses["resume.accepted"] == KnownResult(Result.PASS)
    assert release.clauses["backend.failure-told"].symptoms == ("hang-500", "hang-away")
    assert release.facts == {"host/any turn": {"x.example": ""}}


def test_a_deviation_that_did_not_occur_is_not_kept() -> None:
    """Of the declared symptoms, those that are stale are left out."""
    detail = "x; stale: the declared deviation hang-500 did not occur"
    caveat = j.clause("backend.failure-told", "deviates", detail=detail)
    release = known(*j.clauses(backend_failure_told=caveat))
    assert release.clauses["backend.failure-told"].symptoms == ("hang-away",)


def test_a_failure_is_kept_without_what_changes_each_time() -> None:
    """Its symptoms and what was observed are kept, without session ids and times."""
    detail = "exit code 0 and a fresh session 01a2012d-f78e-70f2-95cc-e206268e364c [fresh-session]"
    failing = j.clause("resume.dead-handle", "fail", detail=detail)
    unheard = j.clause("handle.present", "fail", detail="still running after 3 s")
    release = known(*j.clauses(resume_dead_handle=failing, handle_present=unheard), verdict="broken")
    kept = KnownResult(Result.FAIL, ("fresh-session",), "exit code 0 and a fresh session <id> [fresh-session]")
    assert release.clauses["resume.dead-handle"] == kept
    assert release.why == "handle.present: still running"


def test_a_release_that_could_not_be_tested_says_why() -> None:
    """It has no results."""
    release = known_release([j.started(at=AT), j.planned(), j.failed(), j.finished(verdict="unanswered")])
    assert (release.verdict, release.why, release.clauses) == (Verdict.UNANSWERED, "npm is absent", {})


def test_a_release_that_the_contract_does_not_cover_says_so() -> None:
    """It is kept like others that could not be tested."""
    old, why = "copilot@1.0.10", "the contract doesn't cover copilot"
    failed = j.failed(old, what=f"{why} 1.0.10")
    events = [j.started(at=AT), j.planned(old), failed, j.finished(old, verdict="unanswered")]
    assert known_release(events).why == why


def test_selected_clauses_give_no_verdict() -> None:
    """Their results are kept all the same."""
    only = {"clauses": ["stdin.open"]}
    release = known(j.clause("stdin.open"), started=only, verdict=None, profile=None, capability=None)
    assert (release.verdict, [*release.clauses]) == (None, ["stdin.open"])


def test_what_differs_between_releases_is_kept_as_facts() -> None:
    """Options with what they take, records with the types of their keys, requests, exit codes, tools and calls."""
    page = {
        "release": "codex@0.169.0",
        "case": "static",
        "step": "help-1",
        "argv": ["codex", "exec", "--help"],
        "exit_code": 0,
        "ended": "exit",
        "cpu_seconds": 0.1,
        "stdout": {"bytes": 0, "excerpt": ""},
        "stderr": {"bytes": 0, "excerpt": ""},
        "names": ["--json", "--model", "--only-mentioned", "-m", "resume"],
        "options": ["--json", "--model <MODEL>"],
    }
    records: dict[str, Any] = {
        "kinds": ["a", "None"],
        "paths": ["a: b", "None: c"],
        "types": ["string", "number"],
        "headers": ["accept"],
    }
    call: dict[str, Any] = {"requests": [j.REQUEST | {"reply": "tool_call exec_command"}], "acted": False, "told": "no"}
    stopped: dict[str, Any] = {"case": "backend-500", "ended": "stopped", "exit_code": -15}
    release = known(
        j._event("page", page), j.turn(**records), j.turn(case="tool-call", **call), j.turn(**(records | stopped))
    )
    assert release.facts == {
        "option/codex exec --help": {"--json": "", "--model": "<MODEL>"},
        "record/first turn": {"a": "", "a: b": "string", "(no type)": "", "(no type): c": "number"},
        "header/first turn": {"accept": ""},
        "request/first turn": {"POST /v1/responses": ""},
        "request/tool call": {"POST /v1/responses": ""},
        "exit code/first turn": {"exit code": "0"},
        "exit code/tool call": {"exit code": "0"},
        # what it printed until then depends on time
        "exit code/failed turn (500)": {"exit code": "did not end"},
        "tool/mode interactive": {"shell": ""},
        "tool call/mode interactive": {"exec_command": "denied"},
    }


def test_what_a_release_lists_is_kept_as_facts() -> None:
    """The commands of a help page, and the variables that it names."""
    output = {"bytes": 0, "excerpt": ""}
    page = {"argv": ["codex", "--help"], "exit_code": 0, "ended": "exit", "cpu_seconds": 0.1}
    listed = {"command": {"codex a": ""}, "variable": {"CODEX_HOME": ""}}
    place = {"release": "codex@0.169.0", "case": "listings", "step": "1", "stdout": output, "stderr": output}
    assert known(j._event("page", page | place | {"listed": listed})).facts == {
        "command/any list": {"codex a": ""},
        "variable/any list": {"CODEX_HOME": ""},
    }


def test_an_engine_that_does_not_start_says_nothing_about_its_records() -> None:
    """Only its exit code is kept: its records, requests and hosts have not gone."""
    turn = j.turn(exit_code=1, kinds=[], paths=[], types=[], requests=[])
    assert known(turn, hosts=[]).facts == {"exit code/first turn": {"exit code": "1"}}


def test_a_key_that_is_the_name_of_a_model_has_a_placeholder() -> None:
    """Usage statistics by model are the same whichever model was asked."""
    asked = j.REQUEST | {"model": "small-2.5"}
    paths = ["use.small-2.5", "use.small-2.5[1m].tokens", "use.small-2.5-max"]
    turn = j.turn(requests=[asked], kinds=["a"], paths=[f"a: {path}" for path in paths], types=["object"] * 3)
    assert [*known(turn).facts["record/first turn"]] == [
        "a",
        "a: use.<model>",
        "a: use.<model>.tokens",
        "a: use.small-2.5-max",
    ]


def test_the_port_of_the_stub_model_is_not_kept() -> None:
    """An engine that opens a tunnel to it names a port that is another one each time."""
    release = known(j.turn(requests=[j.REQUEST | {"method": "CONNECT", "path": "127.0.0.1:34803"}]))
    assert release.facts["request/first turn"] == {"CONNECT 127.0.0.1": ""}
