from itertools import accumulate
from typing import Any

import pytest
from msgspec import UNSET, structs

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.contract.clauses import NEWEST_SET
from turngate.contract.load import catalogue, first_error
from turngate.errors import UsageError
from turngate_probes.journal.events import ClauseEvent, Event, ReleaseFinished
from turngate_probes.report.build import EXCERPT, MOST_REQUESTS, build
from turngate_probes.report.wording import clause_set_of

WHOLE = [j.started(), j.planned(), j.turn(), *j.clauses(), j.finished(), j.ended()]
MISSED = j.clause("handle.present", "fail", detail="no thread_id")


def built(*events: Event) -> Any:
    """Build a report, write it as JSON and validate it against its schema."""
    report = samples.plain(build(events))
    assert first_error("probe-report", report) is None
    return report


def only_release(*events: Event) -> Any:
    """Build a report of one release and return that release."""
    (release,) = built(*events)["releases"]
    return release


def test_a_complete_journal_is_reported_as_it_says() -> None:
    """If the probe finished, the report takes its verdicts over unchanged."""
    report = built(*WHOLE)
    assert report["exit_code"] == 0
    assert not report["interrupted"]
    assert (report["seconds"], report["engine_seconds"], report["cores"]) == (12.0, 20.0, 2)
    assert report["machine"] == j.MACHINE
    (release,) = report["releases"]
    assert release["verdict"] == "compatible"
    assert release["profile"] == j.PROFILE
    assert release["handle"] == j.HANDLE
    assert [c["id"] for c in release["clauses"]] == [c.id for c in j.HERMETIC]


def test_every_place_at_which_a_journal_may_end_gives_a_valid_report() -> None:
    """A journal cut off anywhere gives a valid, interrupted report.

    A release that did not end is unanswered or worse.
    """
    for events in list(accumulate(([event] for event in WHOLE), initial=[]))[1:-1]:
        report = built(*events)
        assert report["interrupted"]
        assert report["exit_code"] == 130
        ended = any(isinstance(event, ReleaseFinished) for event in events)
        assert {r["verdict"] for r in report["releases"]} <= {"compatible" if ended else "unanswered"}


def test_a_journal_of_nothing_is_an_environment_failure() -> None:
    """An empty journal is an environment error."""
    with pytest.raises(UsageError, match="contains no start of a probe"):
        build([])


def test_clauses_without_a_result_are_not_run() -> None:
    """Planned clauses without a result are listed as interrupted, in the order of the catalogue."""
    release = only_release(j.started(), j.planned(), j.clause("handle.present"))
    by_id = {c["id"]: c for c in release["clauses"]}
    assert list(by_id) == [c.id for c in j.HERMETIC]
    assert by_id.pop("handle.present")["result"] == "pass"
    assert {(c["result"], c["detail"]) for c in by_id.values()} == {("not_run", "interrupted")}


def test_a_journal_is_judged_by_its_own_set_of_clauses() -> None:
    """A journal from before a set existed is not asked for its clauses, and keeps the verdict of its own set."""
    older = catalogue().of_set("2026-11").at_level("static", "hermetic")
    asked = {clause.id for clause in older}
    clauses = [event for event in j.clauses() if isinstance(event, ClauseEvent) and event.id in asked]
    unnamed = structs.replace(j.started(), clause_set="2026-11")
    release = only_release(unnamed, j.planned(), j.turn(), *clauses, j.finished(), j.ended())
    assert (release["verdict"], release["clause_set"]) == ("compatible", "2026-11")
    assert [clause["id"] for clause in release["clauses"]] == [clause.id for clause in older]
    assert only_release(*WHOLE)["clause_set"] == "2026-12"


def test_a_verdict_stands_with_its_level() -> None:
    """A release has the level of its probe beside its set of clauses, which the words for a verdict name."""
    for level in ("hermetic", "long"):
        report = build([j.started(level=level, clause_set=NEWEST_SET), j.planned(), j.finished(), j.ended()])
        scope = catalogue().scope(NEWEST_SET, level)
        assert report.releases[0].level == level
        assert clause_set_of(report.releases[0]) == scope


def test_a_verdict_from_recordings_names_the_set_that_they_answer() -> None:
    """About newer clauses they say nothing."""
    planned = j.planned("iflow@0.5.19", source="recordings", executable=None)
    events = [j.started(), planned, j.clause("handle.present", release="iflow@0.5.19")]
    assert only_release(*events, j.finished("iflow@0.5.19"), j.ended())["clause_set"] == "2026-11"


def test_what_a_contract_alone_declares_is_no_answer_of_recordings() -> None:
    """A deviation of a newer clause without evidence says nothing about the set."""
    planned, declared = j.planned(source="recordings"), j.clause("answer.whole", "deviates", evidence=())
    release = only_release(j.started(), planned, j.clause("handle.present"), declared, j.finished(), j.ended())
    assert release["clause_set"] == "2026-11"


def test_the_static_level_plans_static_clauses_alone() -> None:
    """At level static, hermetic clauses are not reported as missing."""
    release = only_release(j.started(level="static"), j.planned())
    assert [c["id"] for c in release["clauses"]] == [c.id for c in catalogue().at_level("static")]


def test_the_server_level_plans_its_own_clauses_alone() -> None:
    """At level server, clauses of lower levels are not reported as missing."""
    release = only_release(j.started(level="server", clause_set=NEWEST_SET), j.planned())
    assert [c["id"] for c in release["clauses"]] == [c.id for c in catalogue().at_level("server")]


def test_a_call_is_evidence_with_its_answer() -> None:
    """Requests to the reference server and its responses are listed with the turns."""
    missed = j.clause("server.waits", "fail", evidence=["loop/asked", "loop/turn-1", "loop/lost"])
    events = (j.call(), j.turn(case="loop", step="turn-1"), missed)
    release = only_release(j.started(level="server"), j.planned(), *events)
    call, turn, lost = next(c for c in release["clauses"] if c["id"] == "server.waits")["evidence"]
    assert call == {
        "call": "loop/asked",
        "method": "GET",
        "path": "/v1/runs/1",
        "status": 200,
        "sent": None,
        "answer": '{"state": "failed"}',
    }
    assert turn["turn"] == "loop/turn-1"
    assert lost == "loop/lost"
    assert release["turns"] == 1


def test_an_interrupted_release_that_failed_a_breaking_clause_is_broken() -> None:
    """A breaking failure makes an interrupted release broken."""
    release = only_release(j.started(), j.planned(), j.turn(), MISSED)
    assert release["verdict"] == "broken"
    assert release["capability"]["supported"] is False
    assert release["profile"]["kind"] == "sticky_process"
    assert release["handle"] is None


def test_an_interrupted_check_of_recordings_is_unanswered() -> None:
    """Recordings that were only partly checked leave the release unanswered."""
    release = only_release(j.started(), j.planned(source="recordings"), j.clause("handle.present"))
    assert release["verdict"] == "unanswered"


def test_unfinished_figures_come_from_the_turns() -> None:
    """For an interrupted release, time and number of turns come from its turns."""
    last = structs.replace(j.turn(step="resume"), at="2026-11-21T10:00:07.500+00:00")
    report = built(j.started(), j.planned(), j.turn(), last)
    (release,) = report["releases"]
    assert (release["seconds"], release["engine_seconds"], release["turns"]) == (7.5, 2.5, 2)
    assert (report["seconds"], report["engine_seconds"]) == (7.5, 2.5)


def test_a_release_that_could_not_be_asked_says_why() -> None:
    """Missing engines are reported, and their verdict is unanswered."""
    report = built(
        j.started(),
        j.planned("gemini", version=None, executable=None, source="npm"),
        j.failed("gemini"),
        j.ended(),
    )
    (release,) = report["releases"]
    assert release["verdict"] == "unanswered"
    assert release["failed"] == {"reason": "no_executable", "what": "npm is absent", "hint": "install Node.js"}
    assert {c["reason"] for c in release["clauses"]} == {"no_executable"}
    assert {c["detail"] for c in release["clauses"]} == {"could not be tested: npm is absent"}
    assert report["exit_code"] == 2


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_clause_that_was_not_run_for_no_reason_is_a_crash(*, interrupted: bool) -> None:
    """If neither a prerequisite nor the environment explains it, a clause that was not run is a bug in turngate."""
    held = j.clause("handle.present"), j.clause("resume.accepted", "fail")
    lost = j.clause("handle.place", "not_run", detail="nobody knows", needs=["handle.present"])
    report = built(
        j.started(), j.planned(), *held, lost, j.finished(verdict="broken"), j.ended(interrupted=interrupted)
    )
    reported = {clause["id"]: clause["detail"] for clause in report["releases"][0]["clauses"]}
    assert report["exit_code"] == 3
    assert reported["handle.place"].startswith("nobody knows: not run, and turngate can't say why. This is a bug")
    assert "bug" not in reported["resume.accepted"]


@pytest.mark.parametrize("need", ["fail", "deviates", "unsupported"])
def test_a_clause_that_was_not_run_since_another_fell_is_none(need: str) -> None:
    """It names the failed prerequisite, also an indirect one, and the exit code is that of the verdict."""
    lost = [
        j.clause("handle.present", need),
        j.clause("handle.place", "not_run", needs=["handle.present"]),
        j.clause("handle.shape", "not_run", needs=["handle.place"]),
        j.clause("resume.accepted", "not_run", reason="machine"),
    ]
    assert built(j.started(), j.planned(), *lost, j.finished(verdict="broken"), j.ended())["exit_code"] == 1


@pytest.mark.parametrize(
    "verdicts, options, code",
    [
        ([], {}, 2),
        (["compatible", "degraded"], {}, 0),
        (["degraded"], {"fail_on": "degraded"}, 1),
        (["unanswered", "broken"], {}, 1),
        (["unanswered", "compatible"], {}, 2),
    ],
)
def test_the_exit_code_is_that_of_all_releases(verdicts: list[str], options: dict[str, Any], code: int) -> None:
    """A probe has one exit code for all releases."""
    releases = [
        event
        for number, verdict in enumerate(verdicts)
        for event in (j.planned(f"codex@{number}"), j.finished(f"codex@{number}", verdict))
    ]
    assert built(j.started(**options), *releases, j.ended())["exit_code"] == code


@pytest.mark.parametrize("fail_on, code", [("broken", 0), ("degraded", 1)])
def test_a_stale_deviation_fails_under_strict(fail_on: str, code: int) -> None:
    """A stale deviation passes, but fails with strict."""
    stale = j.clause("stdin.open", detail="ended; stale: …", stale=True)
    report = built(j.started(fail_on=fail_on), j.planned(), *j.clauses(stdin_open=stale), j.finished(), j.ended())
    assert report["exit_code"] == code


def test_an_interrupted_probe_exits_as_such() -> None:
    """After Ctrl-C the exit code is that of an interrupt, even if a release is broken already."""
    report = built(j.started(), j.planned(), MISSED, j.ended(interrupted=True))
    assert (report["exit_code"], report["interrupted"]) == (130, True)


def test_evidence_of_a_pass_is_names_and_of_all_else_turns() -> None:
    """A failure shows its turns in full, a pass only names them."""
    release = only_release(j.started(), j.planned(), j.turn(), j.clause("stream.framing"), MISSED)
    by_id = {c["id"]: c["evidence"] for c in release["clauses"]}
    assert by_id["stream.framing"] == ["main/first"]
    (shown,) = by_id["handle.present"]
    assert shown["turn"] == "main/first"
    assert shown["argv"] == list(j.turn().argv)
    assert shown["requests"] == [j.REQUEST]


def test_evidence_whose_turn_is_not_known_stays_a_name() -> None:
    """If the journal lacks a turn, the evidence keeps the turn's name."""
    release = only_release(j.started(), j.planned(), MISSED)
    assert next(c for c in release["clauses"] if c["id"] == "handle.present")["evidence"] == ["main/first"]


def test_releases_are_kept_apart() -> None:
    """Turns of the same name in two releases stay separate, even if their events alternate."""
    other = "codex@0.140.0"
    events = [
        j.started(),
        j.planned(),
        j.planned(other),
        j.turn(other, exit_code=9),
        j.turn(),
        j.clause("handle.present", "fail"),
        j.clause("handle.present", "fail", other),
    ]
    codes = [
        c["evidence"][0]["exit_code"]
        for release in built(*events)["releases"]
        for c in release["clauses"]
        if c["id"] == "handle.present"
    ]
    assert codes == [0, 9]


def test_evidence_is_bounded() -> None:
    """Long output, long texts and many requests are cut, so that the report stays readable."""
    flood = {"bytes": 10**9, "excerpt": "y" * 100_000}
    turn = j.turn(stdout=flood, requests=[j.REQUEST | {"last_user_text": "z" * 10**5}] * 500, argv=["x" * 10**5])
    release = only_release(j.started(), j.planned(), turn, MISSED)
    shown = next(c for c in release["clauses"] if c["id"] == "handle.present")["evidence"][0]
    assert len(shown["stdout"]["excerpt"]) < EXCERPT + 100
    assert shown["stdout"]["bytes"] == 10**9
    assert (len(shown["requests"]), shown["requests_seen"]) == (MOST_REQUESTS, 500)
    assert len(str(shown["requests"][0])) + len(shown["argv"][0]) < 4000


def test_turns_without_a_backend_have_no_requests() -> None:
    """Turns of static clauses run without a model backend, so they have no requests."""
    release = only_release(j.started(), j.planned(), j.turn(requests=None), MISSED)
    shown = next(c for c in release["clauses"] if c["id"] == "handle.present")["evidence"][0]
    assert (shown["requests"], shown["requests_seen"]) == (None, None)


@pytest.mark.parametrize("place", ["", "machine", "release", "clause", "evidence"])
def test_the_schema_refuses_fields_that_it_does_not_know(place: str) -> None:
    """Every field of the report is described in its schema."""
    report = built(j.started(), j.planned(), j.turn(), MISSED)
    release = report["releases"][0]
    missed = next(c for c in release["clauses"] if c["result"] == "fail")
    places = {"": report, "machine": report["machine"], "release": release, "clause": missed}
    target = places.get(place) or missed["evidence"][0]
    target["surprise"] = 1
    assert first_error("probe-report", report) is not None
    with pytest.raises(ValueError, match="surprise"):
        samples.read(report)


def test_the_models_are_those_of_the_first_turn_and_of_the_contract() -> None:
    """The release's own model is that of the first turn that asks for none; without a default there is none."""
    planned = structs.replace(j.planned(), asked_model="asked", default_model="the login")
    request = structs.replace(j.turn().requests[0], model="gpt", tools=("run",))
    asking = structs.replace(j.turn(step="again"), argv=("codex", "asked"), requests=(request,))
    turn = structs.replace(j.turn(), requests=(structs.replace(request, tools=(), model="title"), request))
    of_all = [j.started(), planned, asking, turn]
    assert only_release(*of_all)["models"] == {"own": "gpt", "depends_on": "the login", "asked": "asked"}
    without = structs.replace(planned, default_model=UNSET)
    assert only_release(j.started(), without, turn)["models"] == {"own": None, "depends_on": None, "asked": "asked"}
    without = structs.replace(without, no_default_model="a login")
    assert only_release(j.started(), without, turn)["models"]["none_because"] == "a login"
    assert "models" not in only_release(j.started(), j.planned(), turn)
