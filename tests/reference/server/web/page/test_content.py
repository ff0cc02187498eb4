"""Tests of what the pages read from the store, and how much of it."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from tests.reference import cli_env as d
from tests.reference.caller import Caller
from tests.reference.server_env import ASK, ServerEnv
from tests.tables import each
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import runs
from turngate_reference.server.store.events import TextEvent, add_event
from turngate_reference.server.store.runs import StoredTurn
from turngate_reference.server.web.page import content
from turngate_reference.server.web.page.content import Question, RunRow, TurnView
from turngate_reference.states import State


def test_lists_are_paged(caller: Caller) -> None:
    """Runs come newest first, each once, with the start of the prompt."""
    for number in range(content.PAGE + 2):
        caller.post("/v1/runs", {"engine": "codex", "prompt": f"{number} {'x' * 500}"})
    first = content.run_list(caller.core.store, State.QUEUED, "codex", None)
    second = content.run_list(caller.core.store, State.QUEUED, "codex", first.older)
    rows = first.rows + second.rows
    assert [row.prompt.split()[0] for row in rows] == [str(number) for number in reversed(range(content.PAGE + 2))]
    assert {len(row.prompt) for row in rows} == {160}
    assert (len(first.rows), second.older) == (content.PAGE, None)
    assert content.run_list(caller.core.store, None, "gemini", None).rows == []


def test_the_inbox_shows_first_what_closes_first(server_env: ServerEnv) -> None:
    """Questions with a deadline come first, then the others, oldest first; the oldest of all is known."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    asked = [server_env.ask()[0] for _ in range(3)]
    store = server_env.server.store
    with store.writing() as connection:
        runs.change(connection, asked[2], wait_deadline_at="2030-01-01T00:00:00.000+00:00")
    page = content.inbox(store, 0)
    assert [question.row.run.run_id for question in page.questions] == [asked[2], asked[0], asked[1]]
    assert page.longest
    assert (page.longest.row.run.run_id, page.more) == (asked[0], None)


def test_the_inbox_is_paged(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every open question is on one page, the oldest first."""
    monkeypatch.setattr(content, "PAGE", 2)
    server_env.cli_env.engine("codex", d.codex(ASK))
    asked = [server_env.ask()[0] for _ in range(3)]
    first = content.inbox(server_env.server.store, 0)
    assert first.more == 2
    rest = content.inbox(server_env.server.store, first.more)
    assert [question.row.run.run_id for question in first.questions + rest.questions] == asked
    assert rest.more is None


def test_events_are_paged_backwards(caller: Caller) -> None:
    """The last events are shown in order, and every earlier event is on exactly one earlier page."""
    run_id = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json["run_id"]
    store = caller.core.store
    with store.writing() as connection:
        for number in range(2 * content.MAX_EVENTS):
            add_event(connection, run_id, TextEvent(1, str(number)))
    run, before = content.existing(store, run_id), None
    seen: list[int] = []
    while True:
        view = content.run_view(store, run, None, before)
        seen = [event.id for event in view.events] + seen
        before = view.earlier
        if before is None:
            break
    assert seen == [event.id for event in runs.events(store, run_id, 0, 1000)]
    assert len(seen) == 2 * content.MAX_EVENTS + 1


def test_many_options_and_fields_are_left_out(server_env: ServerEnv) -> None:
    """Options and fields beyond the limit are not shown, but counted."""
    asked = json.loads(ASK)
    asked["interaction"] |= {"options": [str(n) for n in range(60)], "required_fields": [str(n) for n in range(70)]}
    server_env.cli_env.engine("codex", d.codex(json.dumps(asked)))
    run_id, stored = server_env.ask()
    question = Question(RunRow(server_env.run(run_id), ""), stored)
    assert (len(question.options), len(question.fields), question.left_out) == (50, 50, 30)
    assert not question.is_permission


def test_a_question_for_a_yes_or_a_no_has_buttons(server_env: ServerEnv) -> None:
    """Without options of the agent, a `confirm` offers yes and no, and a `risk_ack` to accept the risk or not."""
    asked = json.loads(ASK)
    for kind, options, shown in (
        ("confirm", (), ("yes", "no")),
        ("confirm", ("go",), ("go",)),
        ("risk_ack", (), ("I accept the risk", "I do not accept the risk")),
        ("open_text", (), ()),
    ):
        asked["interaction"] |= {"kind": kind, "options": options}
        server_env.cli_env.engine("codex", d.codex(json.dumps(asked)))
        run_id, stored = server_env.ask()
        question = Question(RunRow(server_env.run(run_id), ""), stored)
        assert (question.options, question.left_out) == (shown, 0)


@pytest.mark.parametrize(
    "options, has_buttons", [(("a",) * 6, True), (("a",) * 7, False), (("a" * 61, "b"), False), (("a" * 60,), True)]
)
def test_few_short_options_are_buttons(server_env: ServerEnv, options: tuple[str, ...], has_buttons: bool) -> None:  # noqa: FBT001
    """Many or long ones are a list to choose from."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, stored = server_env.ask()
    asked = replace(stored, question=replace(stored.question, options=options))
    assert Question(RunRow(server_env.run(run_id), ""), asked).has_buttons is has_buttons


def test_a_missing_run_is_refused(caller: Caller) -> None:
    """An unknown run raises the API's error."""
    with pytest.raises(ApiError, match="RUN_NOT_FOUND"):
        content.existing(caller.core.store, "x")


def test_installed_engines_come_first(caller: Caller) -> None:
    """Installed engines come first, so that one of them is preselected."""
    listed = content.engines(caller.core)
    assert listed[0].engine == "codex"
    assert all(engine.executable is None for engine in listed[1:])


def test_the_details_of_an_event_are_what_is_not_said_otherwise(caller: Caller) -> None:
    """The details leave out the text and the state, which the page shows elsewhere."""
    run_id = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json["run_id"]
    (event,) = runs.events(caller.core.store, run_id)
    assert content.details(event) == {}


@each(
    "changes, outcome, ended",
    [
        ({"outcome": "final", "exit_code": 0}, "finished", "exit code 0"),
        ({"outcome": "ask_user", "exit_code": None}, "asked you", ""),
        ({"outcome": "error", "exit_code": -15}, "canceled", ""),
        ({"outcome": "error", "exit_code": -15, "failure": {"code": "x", "detail": ""}}, "failed", "ended by SIGTERM"),
        (
            {"outcome": "error", "exit_code": -99, "failure": {"code": "x", "detail": ""}},
            "failed",
            "ended by signal 99",
        ),
        ({"ended_at": None}, "running", ""),
        ({}, "ended", ""),
    ],
)
def test_how_a_turn_ended_is_said_in_words(changes: dict[str, Any], outcome: str, ended: str) -> None:
    """A turn that was canceled is no error, and the exit code of its engine says nothing."""
    turn = StoredTurn(1, "2026", "2026", 1.0, None, None, None, None, None, None, None, ())
    view = TurnView(replace(turn, **changes), "", [])
    assert (view.outcome, view.exit) == (outcome, ended)
