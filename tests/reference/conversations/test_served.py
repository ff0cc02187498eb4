"""`turngate resume` and `turngate handles` on served runs: one record, and the store decides who is first."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import Desk, Said
from tests.reference.server_env import ASK, House, final
from turngate.process import is_alive
from turngate_reference.conversations import served
from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.orchestrator import recovery, transitions
from turngate_reference.server.states import State
from turngate_reference.server.store import runs

AUTO = {"--yolo", "--full-auto", "--dangerously-bypass-approvals-and-sandbox"}
STICKY = {"kind": "sticky_process", "reason": "", "session_timeout_sec": 9}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look more often, so that no test waits for a look."""
    monkeypatch.setattr(recovery, "WATCH_SECONDS", 0.02)
    monkeypatch.setattr(served, "WATCH_SECONDS", 0.02)


def handle_of(run_id: str) -> str:
    """Return the handle of a run."""
    return run_id[-8:]


def resumed(desk: Desk, run_id: str, message: str = "blue") -> Said:
    """Resume a run at the terminal."""
    return desk.type("resume", handle_of(run_id), message)


def told(house: House, run_id: str, after: int = 0) -> list[tuple[str, Any]]:
    """List the events of a run, each with what tells it from others of its type."""
    found = runs.events(house.server.store, run_id, after, 1000)
    return [(each.type, each.data.get("state") or each.data.get("turn_index")) for each in found]


def change(house: House, run_id: str, **columns: Any) -> None:
    """Change a run in the store."""
    with house.server.store.writing() as connection:
        runs.change(connection, run_id, **columns)


def test_a_waiting_run_is_continued_in_place_of_a_reply_over_http(house: House) -> None:
    """The question is closed, the same session goes on where turn 1 ran, and clients of the server see every step."""
    house.desk.engine("codex", d.codex(ASK), d.codex("Painting.", final(colour="blue")))
    run_id, question = house.ask(engine_options=["-c", "a=1"])
    last = runs.events(house.server.store, run_id, 0, 1000)[-1].id
    said = resumed(house.desk, run_id)
    assert said.code == 0, said.err
    assert said.out == 'Painting.\n{\n  "colour": "blue"\n}\n'
    assert f"the run {run_id} has succeeded" in said.err
    run = house.run(run_id)
    assert (run.state, run.turn_index, run.final_data) == (State.SUCCEEDED, 2, {"colour": "blue"})
    assert (run.pending_interaction_id, run.process) == (None, None)
    answered = runs.question(house.server.store, question.interaction_id)
    assert answered
    assert answered.response == "blue"
    assert told(house, run_id, last) == [
        ("reply", None), ("state", "running"), ("turn.started", 2), ("text", 2), ("text", 2), ("turn.ended", 2),
        ("state", "succeeded"),
    ]  # fmt: skip
    first, second = house.desk.calls()
    assert second["argv"] == ["exec", "--json", "--skip-git-repo-check", "-c", "a=1", "resume", d.SESSION, "-"]
    assert second["cwd"] == first["cwd"] == str(run.cwd)
    assert second["stdin"].startswith("The user's reply:\n\nblue\n\n")
    assert house.desk.record(handle_of(run_id))["state"] == "answered"
    with pytest.raises(ApiError, match="NOT_WAITING"):
        house.reply(run_id, question)


def test_no_server_is_needed_and_the_next_one_goes_on(closed_house: House) -> None:
    """A question that a terminal's turn ends with waits for the next server, which resumes the same session."""
    house = closed_house
    house.keep_session()
    house.desk.engine("codex", d.codex(ASK), d.codex(ASK), d.codex(final(x=1)))
    with house.opened():
        run_id, _ = house.ask()
    said = resumed(house.desk, run_id)
    assert (said.code, "? Which colour?" in said.out) == (0, True)
    assert f"{run_id} waits for the next reply" in said.err
    with house.opened():
        assert house.run(run_id).state is State.WAITING_USER
        house.reply(run_id, house.question(run_id))
        assert house.wait(run_id, State.SUCCEEDED).turn_index == 3
    assert [d.SESSION in call["argv"] for call in house.desk.calls()] == [False, True, True]


@pytest.mark.parametrize("end", ["succeeded", "failed", "canceled"])
def test_a_run_that_has_ended_is_continued_as_a_conversation(house: House, end: str) -> None:
    """The message goes as it is into the run's session and directory; the API goes on to show how the run ended."""
    bad = [*d.codex(), ["exit", 1]]
    house.desk.engine(
        "codex", d.codex(ASK), *([bad] if end == "failed" else [d.codex(final(x=1))] * (end == "succeeded")),
        d.codex("It dries.", more=[["env", "HOME"]]), d.codex("Dry."),
    )  # fmt: skip
    run_id, question = house.ask()
    if end == "canceled":
        house.server.commands.cancel(run_id)
    else:
        house.reply(run_id, question)
    run = house.wait(run_id, State(end))
    said = resumed(house.desk, run_id, "Is it dry?")
    assert (said.code, said.out) == (0, "It dries.\n"), said.err
    assert "had ended before, and does not show this turn" in said.err
    assert house.run(run_id) == run
    *_, call = house.desk.calls()
    assert (call["stdin"], call["cwd"]) == ("Is it dry?", str(run.cwd))
    record = house.desk.record(handle_of(run_id))
    assert (record["state"], record["turns"]) == ("answered", run.turn_index + 1)
    traces = run.run_directory / ".turngate" / f"attempt-{run.turn_index + 1:03}"
    assert (traces / "stderr").read_text() == f"HOME={house.settings.env['HOME']}\n"
    assert resumed(house.desk, run_id, "Now?").out == "Dry.\n"
    assert house.desk.record(handle_of(run_id))["turns"] == run.turn_index + 2


def test_no_auto_flag_is_passed_on_any_path(house: House) -> None:
    """A record that somebody changed widens nothing: the store rules a waiting run, and the contract an ended one."""
    house.desk.engine("codex", d.codex(ASK), d.codex(final(x=1)), d.codex("hi"))
    run_id, _ = house.ask()
    handle = handle_of(run_id)
    launch = house.desk.record(handle)["launch"]
    house.desk.change(handle, {"launch": launch | {"args": ["--yolo"], "mode": "auto"}})
    assert resumed(house.desk, run_id).code == 0
    house.desk.change(handle, {"launch": launch | {"args": ["--yolo"]}, "turns": 9})
    assert resumed(house.desk, run_id).code == 2
    house.desk.change(handle, {"launch": launch})
    assert resumed(house.desk, run_id).code == 0
    calls = house.desk.calls()
    assert len(calls) == 3
    assert not AUTO & {word for call in calls for word in call["argv"]}


@pytest.mark.parametrize(
    "state,profile,why",
    [
        (State.QUEUED, None, "it is queued for its next turn in turngate serve"),
        (State.RUNNING, None, "turngate serve is running its turn, or was killed in it"),
        (State.WAITING_USER, STICKY, "its sticky process belongs to turngate serve; POST the reply to /v1/runs/"),
        (State.SUCCEEDED, STICKY, "its session ended with its sticky process"),
    ],
)
def test_what_can_not_be_continued_is_refused_with_the_reason(
    house: House, state: State, profile: dict[str, Any] | None, why: str
) -> None:
    """Queued, running and sticky runs are left to the server; nothing is run, and nothing changes."""
    house.desk.engine("codex", d.codex(ASK))
    run_id, _ = house.ask()
    house.server.dispatcher.close()
    change(house, run_id, **({"profile": profile} if profile else {}))
    with house.server.store.writing() as connection:
        connection.execute("UPDATE runs SET state = ? WHERE run_id = ?", (state, run_id))
    before = house.run(run_id), house.desk.record(handle_of(run_id))
    said = resumed(house.desk, run_id)
    assert (said.code, len(house.desk.calls())) == (2, 1)
    assert f"{handle_of(run_id)} can't be continued now: {why}" in said.err
    assert (house.run(run_id), house.desk.record(handle_of(run_id))) == before


def test_a_run_without_a_turn_has_a_record_too(house: House) -> None:
    """The handle that a creation answers with is known at once, and the list tells how each run stands."""
    house.desk.engine("codex", d.codex(ASK, more=[["meet"]]), d.codex(final(x=1)))
    running = house.create(execution_mode="interactive")
    house.desk.meet()
    assert listed(house.desk) == {handle_of(running): "unfinished"}
    house.desk.release()
    question = house.question(running)
    assert listed(house.desk) == {handle_of(running): "asked"}
    house.server.dispatcher.close()
    queued = house.create()
    house.reply(running, question)
    assert listed(house.desk) == {handle_of(queued): "queued", handle_of(running): "queued"}
    house.server.commands.cancel(running)
    assert list(listed(house.desk)) == [handle_of(running), handle_of(queued)]
    shown = json.loads(house.desk.type("handles", "show", handle_of(running)).out)
    assert (shown["state"], shown["turns"], shown["served"]) == ("canceled", 1, True)


def listed(desk: Desk) -> dict[str, str]:
    """List the handles with their states, as the command does."""
    lines = desk.type("handles").out.splitlines()
    return {line.split()[0]: line.split()[4] for line in lines}


def refused_early(house: House, run_id: str, why: str, message: str = "blue") -> None:
    """See a reply refused before anything has changed."""
    said = resumed(house.desk, run_id, message)
    assert (said.code, why in said.err) == (2, True), said
    assert house.run(run_id).state is State.WAITING_USER
    assert len(house.desk.calls()) == 1


def test_what_is_known_to_go_wrong_is_refused_before_the_reply_is_taken(house: House) -> None:
    """An empty reply, a session that is gone, and an engine that is gone leave the run waiting."""
    executable = house.desk.engine("codex", d.codex(ASK))
    run_id, _ = house.ask()
    refused_early(house, run_id, "the reply is empty", " ")
    house.keep_session().unlink()
    refused_early(house, run_id, "session store does not hold")
    house.keep_session()
    executable.write_text("#!/no/such/interpreter\n")
    refused_early(house, run_id, "was not started")
    executable.unlink()
    refused_early(house, run_id, "Codex CLI is not installed")


def test_a_reply_over_http_that_comes_first_wins(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that finds the question closed when it would take it sends nothing."""
    house.desk.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = house.ask()
    claim = transitions.claim_at_terminal

    def late(*args: Any) -> Any:
        house.reply(run_id, question, "red")
        return claim(*args)

    monkeypatch.setattr(transitions, "claim_at_terminal", late)
    said = resumed(house.desk, run_id)
    assert (said.code, "somebody else was first" in said.err) == (2, True)
    house.wait(run_id, State.SUCCEEDED)
    assert [call["stdin"].split("\n\n")[1] for call in house.desk.calls()[1:]] == ["red"]


def test_one_of_a_terminal_and_http_wins_whoever_it_is(house: House) -> None:
    """Both at once, several times: one turn for each question, and the other one is told."""
    house.desk.engine("codex", d.codex(ASK))
    run_id, question = house.ask()
    for turn in range(2, 8):
        refused: list[ApiError] = []
        together = threading.Barrier(2)

        def over_http(pending: Any = question, refused: list[ApiError] = refused, together: Any = together) -> None:
            together.wait()
            try:
                house.reply(run_id, pending, "http")
            except ApiError as late:
                refused.append(late)

        thread = threading.Thread(target=over_http)
        thread.start()
        together.wait()
        said = resumed(house.desk, run_id, "terminal")
        thread.join()
        question = house.question(run_id)
        assert (house.run(run_id).turn_index, len(house.desk.calls())) == (turn, turn)
        assert [said.code == 0] == [bool(refused)], said
        winner = "terminal" if refused else "http"
        assert house.desk.calls()[-1]["stdin"].split("\n\n")[1] == winner


def test_a_cancel_over_http_ends_the_turn_of_a_terminal(house: House) -> None:
    """The terminal ends its engine, says so with 130, and the run is canceled when the engine is gone."""
    house.desk.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]))
    run_id, _ = house.ask()
    terminal = house.desk.spawn("resume", handle_of(run_id), "blue")
    engine = psutil.Process(house.desk.meet())
    assert house.run(run_id).state is State.RUNNING
    assert house.server.commands.cancel(run_id)["state"] == "running"
    _, err = terminal.communicate(timeout=60)
    assert house.run(run_id).state is State.CANCELED
    assert not is_alive(engine)
    assert (terminal.returncode, f"{run_id} was canceled" in err) == (130, True)


def test_an_interrupted_terminal_settles_its_run(house: House) -> None:
    """SIGTERM ends the engine, and the run fails with the reason; its conversation can go on."""
    house.desk.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]), d.codex("b"))
    run_id, _ = house.ask()
    terminal = house.desk.spawn("resume", handle_of(run_id), "blue")
    house.desk.meet()
    terminal.send_signal(signal.SIGTERM)
    terminal.communicate(timeout=60)
    assert (terminal.returncode, house.failed(run_id)["code"]) == (130, "TERMINAL_INTERRUPTED")
    assert resumed(house.desk, run_id, "go on").out == "b\n"


def test_a_running_server_settles_the_turn_of_a_killed_terminal(house: House) -> None:
    """The engine that it left is ended, and the run fails with the reason."""
    house.desk.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]))
    run_id, _ = house.ask()
    engine = kill_terminal(house, run_id)
    assert house.failed(run_id)["code"] == "TERMINAL_INTERRUPTED"
    assert not is_alive(engine)
    assert told(house, run_id)[-2:] == [("turn.ended", 2), ("state", "failed")]
    assert house.run(run_id).process is None
    assert house.desk.record(handle_of(run_id))["state"] == "failed"


def kill_terminal(house: House, run_id: str) -> psutil.Process:
    """Kill a terminal amid its turn; gives the engine that it leaves."""
    terminal = house.desk.spawn("resume", handle_of(run_id), "blue")
    engine = psutil.Process(house.desk.meet())
    terminal.kill()
    terminal.communicate(timeout=60)
    return engine


@pytest.mark.parametrize("canceled", [False, True])
def test_the_next_server_or_terminal_settles_it_too(closed_house: House, *, canceled: bool) -> None:
    """Without a server the next resume ends what was left, and goes on as with a run that has ended."""
    house = closed_house
    house.keep_session()
    house.desk.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]), d.codex("b"))
    with house.opened():
        run_id, _ = house.ask()
    engine = kill_terminal(house, run_id)
    if canceled:
        with house.opened():
            house.wait(run_id, State.FAILED)
    assert resumed(house.desk, run_id, "go on").out == "b\n"
    assert not is_alive(engine)
    with house.opened():
        assert house.failed(run_id)["code"] == "TERMINAL_INTERRUPTED"
        assert house.run(run_id).turn_index == 2


def test_a_restart_of_the_server_leaves_the_turn_of_a_living_terminal_alone(closed_house: House) -> None:
    """The turn goes on through the end of one server and the start of the next, and its end is told by that."""
    house = closed_house
    house.keep_session()
    house.desk.engine("codex", d.codex(ASK), d.codex("a", final(x=1), more=[["meet"]]))
    with house.opened():
        run_id, _ = house.ask()
        terminal = house.desk.spawn("resume", handle_of(run_id), "blue")
        engine = psutil.Process(house.desk.meet())
    with house.opened():
        assert house.run(run_id).state is State.RUNNING
        assert engine.is_running()
        house.desk.release()
        terminal.communicate(timeout=60)
        assert (terminal.returncode, house.run(run_id).state) == (0, State.SUCCEEDED)


def test_two_terminals_give_one_reply(house: House) -> None:
    """The second one is told who is at it."""
    house.desk.engine("codex", d.codex(ASK), d.codex(final(x=1), more=[["meet"]]))
    run_id, _ = house.ask()
    terminal = house.desk.spawn("resume", handle_of(run_id), "blue")
    house.desk.meet()
    said = resumed(house.desk, run_id, "red")
    assert (said.code, f"in use by process {terminal.pid}" in said.err) == (2, True)
    house.desk.release()
    terminal.communicate(timeout=60)
    assert (terminal.returncode, house.run(run_id).state) == (0, State.SUCCEEDED)


def test_another_session_fails_the_run_and_is_told(house: House) -> None:
    """A resume that came back with another session ends with 4, and the run fails as it would on the server."""
    house.desk.engine("codex", d.codex(ASK), d.codex("Who?", session=d.OTHER))
    run_id, _ = house.ask()
    said = resumed(house.desk, run_id)
    assert (said.code, f"but {d.OTHER} came back" in said.err) == (4, True)
    assert house.failed(run_id)["code"] == "SESSION_RESUME_FAILED"
    assert house.desk.record(handle_of(run_id))["session"]["value"] == d.SESSION


def test_a_turn_that_can_not_be_run_fails_the_run(house: House) -> None:
    """What goes wrong after the reply was taken ends the run with its code, and the command with 2."""
    house.desk.engine("codex", d.codex(ASK))
    run_id, _ = house.ask()
    (house.run(run_id).run_directory / ".turngate" / "attempt-002").touch()
    said = resumed(house.desk, run_id)
    assert (said.code, f"{run_id} has failed: ORCHESTRATOR_ERROR" in said.err) == (2, True)
    assert house.failed(run_id)["code"] == "ORCHESTRATOR_ERROR"


def test_a_workspace_is_not_shared_with_a_run_of_the_server(house: House) -> None:
    """While another unfinished run has the workspace of an ended one, that is not continued."""
    house.server.close()
    (house.desk.root / "shared" / "w").mkdir(parents=True)
    house.desk.engine("codex", d.codex(final(x=1)), d.codex(ASK))
    with house.opened(workspace_root=house.desk.root / "shared"):
        ended = house.create(workspace="w")
        house.wait(ended, State.SUCCEEDED)
        busy, _ = house.ask(workspace="w")
        said = resumed(house.desk, ended)
        assert (said.code, f"the unfinished run {busy} works in" in said.err) == (2, True)


def test_prune_keeps_runs_that_have_not_ended(house: House) -> None:
    """An old run that waits stays whole; one that has ended goes, with its record and directory."""
    house.desk.engine("codex", d.codex(ASK))
    waits, _ = house.ask()
    ended, _ = house.ask()
    house.server.commands.cancel(ended)
    for run_id in (waits, ended):
        with house.server.store.writing() as connection:
            connection.execute("UPDATE runs SET updated_at = '2026-01-01T00:00:00.000+00:00'")
        house.desk.change(handle_of(run_id), {"updatedAt": "2026-01-01T00:00:00+00:00"})
    said = house.desk.type("handles", "prune", "--older-than", "30d")
    assert said.out.split()[:2] == ["removed", handle_of(ended)]
    assert f"kept: {handle_of(waits)}: its run has not ended" in said.err
    assert [house.run(run_id).run_directory.exists() for run_id in (waits, ended)] == [True, False]
    assert list(listed(house.desk)) == [handle_of(waits)]


def test_a_record_whose_database_is_gone_is_listed_and_not_continued(house: House) -> None:
    """Nobody can tell how such a run stands."""
    house.desk.engine("codex", d.codex(ASK))
    run_id, _ = house.ask()
    house.server.close()
    for file in house.desk.data.glob("turngate.db*"):
        file.unlink()
    said = resumed(house.desk, run_id)
    assert (said.code, "turngate.db is gone" in said.err) == (2, True)
    said = house.desk.type("handles")
    assert (said.code, handle_of(run_id) in said.out, "may be old" in said.err) == (0, True, True)
    assert "kept" in house.desk.type("handles", "prune", "--older-than", "0h").err
    assert Path(house.desk.record(handle_of(run_id))["runDirectory"]).is_dir()
