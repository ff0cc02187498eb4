"""Tests of `turngate resume` on served runs: one record, and the store decides which reply wins."""

import shutil
import signal
import threading
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from tests.longer import first_quick
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, CliResult
from tests.reference.server.kept_env import ENDS, kept_env
from tests.reference.server.sticky_env import pid_of
from tests.reference.server_env import ASK, ServerEnv, final
from turngate.argv.file_slot import as_in_contract
from turngate.contract import load
from turngate.process.family import is_alive
from turngate_reference.conversations import served
from turngate_reference.conversations.cli.silence import Silence
from turngate_reference.server.orchestrator import owner, transitions
from turngate_reference.server.orchestrator.decide import TurnResult, failed
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import runs
from turngate_reference.states import RunErrorCode, State

AUTO = {"--yolo", "--full-auto", "--dangerously-bypass-approvals-and-sandbox"}

STICKY = {"kind": "sticky_process", "reason": "", "session_timeout_sec": 9}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll more often, so that no test waits for a poll."""
    monkeypatch.setattr(owner, "CHORE_SECONDS", 0.02)


def handle_of(run_id: str) -> str:
    """Return the handle of a run."""
    return run_id[-8:]


def resumed(cli_env: CliEnv, run_id: str, message: str = "blue") -> CliResult:
    """Resume a run at the terminal."""
    return cli_env.type("resume", handle_of(run_id), message)


def reported(server_env: ServerEnv, run_id: str, after: int = 0) -> list[tuple[str, Any]]:
    """List the events of a run with their state or turn."""
    events = runs.events(server_env.server.store, run_id, after, 1000)
    shown = [(event.type, event.as_dict()) for event in events]
    return [(kind, data.get("state") or data.get("turn_index")) for kind, data in shown]


def change(server_env: ServerEnv, run_id: str, **columns: Any) -> None:
    """Change a run in the store."""
    with server_env.server.store.writing() as connection:
        runs.change(connection, run_id, **columns)


def test_a_waiting_run_is_continued_in_place_of_a_reply_over_http(server_env: ServerEnv) -> None:
    """The question is closed, the session continues in turn 1's directory, and the server's clients see each step."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("Painting.", final(colour="blue")))
    run_id, question = server_env.ask(engine_options=["--add-dir", "a"])
    last = runs.events(server_env.server.store, run_id, 0, 1000)[-1].id
    said = resumed(server_env.cli_env, run_id)
    assert said.code == 0, said.err
    assert said.out == 'Painting.\n{\n  "colour": "blue"\n}\n'
    assert f"run {run_id} has succeeded" in said.err
    run = server_env.run(run_id)
    assert (run.state, run.turn_index, run.final_data) == (State.SUCCEEDED, 2, {"colour": "blue"})
    assert (run.pending_interaction_id, run.process) == (None, None)
    answered = runs.question(server_env.server.store, question.interaction_id)
    assert answered
    assert answered.response == "blue"
    assert reported(server_env, run_id, last) == [
        ("reply", None),
        ("state", "running"),
        ("turn.started", 2),
        ("turn.delivered", 2),
        ("text", 2),
        ("text", 2),
        ("turn.ended", 2),
        ("state", "succeeded"),
    ]
    first, second = server_env.cli_env.calls()
    contract = server_env.server.engines.find("codex").contract
    assert contract.artifacts
    own = (*contract.artifacts.options, "--add-dir", "a")
    passed = as_in_contract(tuple(second["argv"]), contract)
    assert passed == ("exec", "--json", "--skip-git-repo-check", *own, "resume", d.SESSION, "-")
    assert second["cwd"] == first["cwd"] == str(run.cwd)
    assert second["stdin"].startswith("The user's reply:\n\nblue\n\n")
    assert server_env.cli_env.record(handle_of(run_id))["state"] == "succeeded"
    with pytest.raises(ApiError, match="NOT_WAITING"):
        server_env.reply(run_id, question)


@pytest.mark.long
def test_the_output_schema_is_applied_outside_of_the_terminal(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schema that takes too long fails the run, and leaves no process behind."""
    monkeypatch.setattr(served, "DATA_SECONDS", 0.1)
    schema = {"properties": {"x": {"pattern": "^(a+)+$"}}}
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x="a" * 64 + "!")))
    run_id, _ = server_env.ask(output_schema=schema)
    before = psutil.Process().children()
    said = resumed(server_env.cli_env, run_id)
    assert "has failed: SCHEMA_TOO_COSTLY" in said.err
    assert psutil.Process().children() == before


def test_no_server_is_needed_and_the_next_one_goes_on(closed_server_env: ServerEnv) -> None:
    """A question from a terminal's turn waits for the next server, which resumes the same session."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(ASK), d.codex(final(x=1)))
    with server_env.opened():
        run_id, _ = server_env.ask()
    said = resumed(server_env.cli_env, run_id)
    assert (said.code, "? Which colour?" in said.out) == (0, True)
    assert f"{run_id} is waiting for the next reply" in said.err
    with server_env.opened():
        assert server_env.run(run_id).state is State.WAITING_USER
        server_env.reply(run_id, server_env.question(run_id))
        assert server_env.wait(run_id, State.SUCCEEDED).turn_index == 3
    assert [d.SESSION in call["argv"] for call in server_env.cli_env.calls()] == [False, True, True]


@pytest.mark.parametrize("end", first_quick(["succeeded", "failed", "canceled"]))
def test_a_run_that_has_ended_is_continued_as_a_conversation(server_env: ServerEnv, end: str) -> None:
    """The message reaches the run's session and directory unchanged; the API keeps showing how the run ended."""
    bad = [*d.codex(), ["exit", 1]]
    server_env.cli_env.engine(
        "codex",
        d.codex(ASK),
        *([bad] if end == "failed" else [d.codex(final(x=1))] * (end == "succeeded")),
        d.codex("It dries.", more=[["env", "HOME"]]),
        d.codex("Dry."),
    )
    run_id, question = server_env.ask()
    if end == "canceled":
        server_env.server.commands.cancel(run_id)
    else:
        server_env.reply(run_id, question)
    run = server_env.wait(run_id, State(end))
    said = resumed(server_env.cli_env, run_id, "Is it dry?")
    assert (said.code, said.out) == (0, "It dries.\n"), said.err
    assert "had already ended and doesn't show this turn" in said.err
    assert server_env.run(run_id) == run
    *_, call = server_env.cli_env.calls()
    assert (call["stdin"], call["cwd"]) == ("Is it dry?", str(run.cwd))
    record = server_env.cli_env.record(handle_of(run_id))
    assert (record["state"], record["turns"]) == ("succeeded", run.turn_index + 1)
    traces = run.run_directory / ".turngate" / f"attempt-{run.turn_index + 1:03}"
    assert (traces / "stderr").read_text() == f"HOME={server_env.settings.env['HOME']}\n"
    assert resumed(server_env.cli_env, run_id, "Now?").out == "Dry.\n"
    assert server_env.cli_env.record(handle_of(run_id))["turns"] == run.turn_index + 2


def test_no_auto_flag_is_passed_on_any_path(server_env: ServerEnv) -> None:
    """Editing a record allows nothing more: the store decides for a waiting run, the contract for an ended one."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)), d.codex("hi"))
    run_id, _ = server_env.ask()
    handle = handle_of(run_id)
    launch = server_env.cli_env.record(handle)["launch"]
    server_env.cli_env.change(handle, {"launch": launch | {"args": ["--yolo"], "mode": "auto"}})
    assert resumed(server_env.cli_env, run_id).code == 0
    server_env.cli_env.change(handle, {"launch": launch | {"args": ["--yolo"]}, "turns": 9})
    assert resumed(server_env.cli_env, run_id).code == 2
    server_env.cli_env.change(handle, {"launch": launch})
    assert resumed(server_env.cli_env, run_id).code == 0
    calls = server_env.cli_env.calls()
    assert len(calls) == 3
    assert not AUTO & {word for call in calls for word in call["argv"]}


@pytest.mark.parametrize(
    "state, why",
    [
        (State.QUEUED, "its next turn is queued in turngate serve"),
        (State.RUNNING, "turngate serve is running its turn, or was killed while it did"),
    ],
)
def test_what_can_not_be_continued_is_refused_with_the_reason(server_env: ServerEnv, state: State, why: str) -> None:
    """Queued and running runs are left to the server; no engine runs, and nothing changes."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    server_env.server.owner.close()
    with server_env.server.store.writing() as connection:
        connection.execute("UPDATE runs SET state = ? WHERE run_id = ?", (state, run_id))
    before = server_env.run(run_id), server_env.cli_env.record(handle_of(run_id))
    said = resumed(server_env.cli_env, run_id)
    assert (said.code, len(server_env.cli_env.calls())) == (2, 1)
    assert f"{handle_of(run_id)} can't be continued: {why}" in said.err
    assert (server_env.run(run_id), server_env.cli_env.record(handle_of(run_id))) == before


@pytest.mark.long
@pytest.mark.parametrize("engine", first_quick(["codex", "gemini"]))
@pytest.mark.parametrize("end", first_quick(["succeeded", "failed", "canceled"]))
def test_a_sticky_run_that_has_ended_is_continued_in_a_new_process(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, engine: str, end: str
) -> None:
    """The session of its process is resumed by its id, with everything said in it, however the run ended."""
    with kept_env(closed_server_env, engine) as env:
        run_id = env.ask()
        process = psutil.Process(pid_of(env.server_env, run_id))
        if end == "succeeded":
            env.reply(run_id, ENDS)
        elif end == "canceled":
            env.server_env.server.commands.cancel(run_id)
        else:
            process.kill()
        run = env.server_env.wait(run_id, State(end))
        for name, value in env.server_env.settings.env.items():
            if name not in run.locations:
                monkeypatch.setenv(name, value)
        said = resumed(env.server_env.cli_env, run_id, f"Is it dry? {ENDS}")
        assert said.code == 0, said.err
        assert "had already ended and doesn't show this turn" in said.err
        assert '"done": true' in said.out
        assert all(text in env.last_request() for text in ("paint it", "Is it dry?"))
        assert not process.is_running()
        assert replace(env.server_env.run(run_id), process=None, updated_at="") == replace(
            run, process=None, updated_at=""
        )


@pytest.mark.parametrize("change_", [{"keeps_session_id": False}, {"private_store": True}])
def test_a_sticky_session_that_can_not_be_resumed_is_refused(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch, change_: dict[str, bool]
) -> None:
    """The contract says whether the session of a process can be resumed by its id."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)
    change(server_env, run_id, profile=STICKY)
    contract = load.load_contract("codex", "0.169.0")
    alone = replace(contract, sticky=replace(contract.sticky, **change_))
    monkeypatch.setattr(served, "contract_for", lambda _engine, _version: alone)
    said = resumed(server_env.cli_env, run_id)
    assert (said.code, len(server_env.cli_env.calls())) == (2, 2)
    assert "its session ended with its sticky process: codex can't resume it by its id" in said.err


def refused_early(server_env: ServerEnv, run_id: str, why: str, message: str = "blue") -> None:
    """Check that a reply is rejected before anything changes."""
    said = resumed(server_env.cli_env, run_id, message)
    assert (said.code, why in said.err) == (2, True), said
    assert server_env.run(run_id).state is State.WAITING_USER
    assert len(server_env.cli_env.calls()) == 1


def test_what_is_known_to_go_wrong_is_refused_before_the_reply_is_taken(server_env: ServerEnv) -> None:
    """An empty reply, a missing session store or a missing engine leaves the run waiting."""
    executable = server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    refused_early(server_env, run_id, "the reply is empty", " ")
    message = server_env.cli_env.root / "message"
    message.write_text("x" * 2**20)
    said = server_env.cli_env.type("resume", "--message-file", str(message), handle_of(run_id))
    assert (said.code, "characters exceed the limit of 1048576" in said.err) == (2, True)
    store = server_env.cli_env.root / "home" / ".codex"
    aside = store.rename(store.with_name("aside"))
    refused_early(server_env, run_id, "the session store of codex isn't there any more")
    aside.rename(store)
    executable.write_text("#!/no/such/interpreter\n")
    refused_early(server_env, run_id, "could not be started")
    executable.unlink()
    refused_early(server_env, run_id, "Codex CLI is not installed")


def test_a_session_that_is_gone_fails_the_run_which_keeps_the_reply(server_env: ServerEnv) -> None:
    """As over HTTP: no engine runs, and the reply is in the run."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    server_env.keep_session().unlink()
    said = resumed(server_env.cli_env, run_id)
    assert (said.code, f"{run_id} has failed: SESSION_RESUME_FAILED" in said.err) == (2, True), said
    unsent = runs.unsent_reply(server_env.server.store, run_id)
    assert unsent is not None
    assert unsent.response == "blue"
    assert server_env.failed(run_id).code == "SESSION_RESUME_FAILED"
    assert len(server_env.cli_env.calls()) == 1


def test_a_reply_over_http_that_comes_first_wins(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the question is closed before the terminal can take it, the terminal sends nothing."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    claim = transitions.claim_at_terminal

    def late(*args: Any) -> Any:
        server_env.reply(run_id, question, "red")
        return claim(*args)

    monkeypatch.setattr(transitions, "claim_at_terminal", late)
    said = resumed(server_env.cli_env, run_id)
    assert (said.code, "was already answered or closed" in said.err) == (2, True)
    server_env.wait(run_id, State.SUCCEEDED)
    assert [call["stdin"].split("\n\n")[1] for call in server_env.cli_env.calls()[1:]] == ["red"]


def test_one_of_a_terminal_and_http_wins_whoever_it_is(server_env: ServerEnv) -> None:
    """Of simultaneous replies by terminal and HTTP, one starts a turn, and the other is rejected."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, question = server_env.ask()
    for turn in range(2, 8):
        refused: list[ApiError] = []
        together = threading.Barrier(2)

        def over_http(pending: Any = question, refused: list[ApiError] = refused, together: Any = together) -> None:
            together.wait()
            try:
                server_env.reply(run_id, pending, "http")
            except ApiError as late:
                refused.append(late)

        thread = threading.Thread(target=over_http)
        thread.start()
        together.wait()
        said = resumed(server_env.cli_env, run_id, "terminal")
        thread.join()
        question = server_env.question(run_id)
        assert (server_env.run(run_id).turn_index, len(server_env.cli_env.calls())) == (turn, turn)
        assert [said.code == 0] == [bool(refused)], said
        winner = "terminal" if refused else "http"
        assert server_env.cli_env.calls()[-1]["stdin"].split("\n\n")[1] == winner


def test_the_output_of_an_engine_is_watched(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that runs a turn of a served run can tell what its engine prints, beside its texts."""
    printed = list[bytes]()
    monkeypatch.setattr(Silence, "output", lambda _, _stream, chunk: printed.append(chunk))
    server_env.cli_env.engine("codex", d.codex(ASK), [["stderr", "retrying 3/5\n"], *d.codex(final(x=1))])
    run_id, _ = server_env.ask()
    assert resumed(server_env.cli_env, run_id).code == 0
    assert b"retrying 3/5" in b"".join(printed)


@pytest.mark.long
def test_a_cancel_over_http_ends_the_turn_of_a_terminal(server_env: ServerEnv) -> None:
    """The terminal ends its engine and exits with 130; then the run is canceled."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]))
    run_id, _ = server_env.ask()
    terminal = server_env.cli_env.spawn("resume", handle_of(run_id), "blue")
    engine = psutil.Process(server_env.cli_env.meet())
    assert server_env.run(run_id).state is State.RUNNING
    assert server_env.server.commands.cancel(run_id).state is State.RUNNING
    _, err = terminal.communicate(timeout=60)
    assert server_env.run(run_id).state is State.CANCELED
    assert not is_alive(engine)
    assert (terminal.returncode, f"{run_id} was canceled" in err) == (130, True)


@pytest.mark.long
def test_a_database_that_was_deleted_during_the_turn_is_told(server_env: ServerEnv) -> None:
    """The terminal prints the answer, fails, and names the session that the engine has."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1), more=[["meet"]]))
    run_id, _ = server_env.ask()
    terminal = server_env.cli_env.spawn("resume", handle_of(run_id), "blue")
    server_env.cli_env.meet()
    # the terminal notes its engine while the engine already runs
    server_env.wait_for_event(run_id, "turn.delivered", turn=2)
    # moved first, because the server may still write into it
    shutil.rmtree(server_env.cli_env.data.rename(server_env.cli_env.root / "deleted"))
    server_env.cli_env.release()
    out, err = terminal.communicate(timeout=60)
    assert (terminal.returncode, '"x": 1' in out) == (6, True), err
    assert f"could not be saved: somebody deleted the database {server_env.cli_env.data}/turngate.db" in err
    assert f"codex itself has it as session {d.SESSION}" in err
    assert "has succeeded" not in err


@pytest.mark.long
def test_a_turn_whose_run_was_ended_by_the_server_is_told(server_env: ServerEnv) -> None:
    """The terminal ends its engine, fails, and says that the result could not be saved."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]))
    run_id, _ = server_env.ask()
    terminal = server_env.cli_env.spawn("resume", handle_of(run_id), "blue")
    server_env.cli_env.meet()
    dead = failed(RunErrorCode.TERMINAL_INTERRUPTED, "killed")
    with server_env.server.store.writing() as connection:
        run = runs.get(connection, run_id)
        transitions.end(connection, server_env.server._records, run, dead, TurnResult(process=run.process))
    _, err = terminal.communicate(timeout=60)
    assert terminal.returncode == 6, err
    assert "could not be saved: turngate serve took this terminal for dead and ended the run" in err


@pytest.mark.processes
def test_an_interrupted_terminal_settles_its_run(server_env: ServerEnv) -> None:
    """SIGTERM ends the engine and fails the run with the reason; the conversation can be resumed."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]), d.codex("b"))
    run_id, _ = server_env.ask()
    terminal = server_env.cli_env.spawn("resume", handle_of(run_id), "blue")
    server_env.cli_env.meet()
    terminal.send_signal(signal.SIGTERM)
    terminal.communicate(timeout=60)
    assert (terminal.returncode, server_env.failed(run_id).code) == (130, "TERMINAL_INTERRUPTED")
    assert resumed(server_env.cli_env, run_id, "go on").out == "b\n"


@pytest.mark.long
def test_a_running_server_settles_the_turn_of_a_killed_terminal(server_env: ServerEnv) -> None:
    """The server ends the engine that was left and fails the run with the reason."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]))
    run_id, _ = server_env.ask()
    engine = kill_terminal(server_env, run_id)
    assert server_env.failed(run_id).code == "TERMINAL_INTERRUPTED"
    assert not is_alive(engine)
    assert reported(server_env, run_id)[-2:] == [("turn.ended", 2), ("state", "failed")]
    assert server_env.run(run_id).process is None
    assert server_env.cli_env.record(handle_of(run_id))["state"] == "failed"


def kill_terminal(server_env: ServerEnv, run_id: str) -> psutil.Process:
    """Kill a terminal during its turn; return the engine that it leaves behind."""
    terminal = server_env.cli_env.spawn("resume", handle_of(run_id), "blue")
    engine = psutil.Process(server_env.cli_env.meet())
    terminal.kill()
    terminal.communicate(timeout=60)
    return engine


@pytest.mark.processes
@pytest.mark.parametrize("canceled", first_quick([True, False]))
def test_the_next_server_or_terminal_settles_it_too(closed_server_env: ServerEnv, *, canceled: bool) -> None:
    """Without a server, the next resume ends the leftover engine and continues the ended run."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]), d.codex("b"))
    with server_env.opened():
        run_id, _ = server_env.ask()
    engine = kill_terminal(server_env, run_id)
    if canceled:
        with server_env.opened():
            server_env.wait(run_id, State.FAILED)
    assert resumed(server_env.cli_env, run_id, "go on").out == "b\n"
    assert not is_alive(engine)
    with server_env.opened():
        assert server_env.failed(run_id).code == "TERMINAL_INTERRUPTED"
        assert server_env.run(run_id).turn_index == 2


@pytest.mark.long
def test_a_restart_of_the_server_leaves_the_turn_of_a_living_terminal_alone(closed_server_env: ServerEnv) -> None:
    """The turn continues while one server stops and the next starts; the new server sees it end."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("a", final(x=1), more=[["meet"]]))
    with server_env.opened():
        run_id, _ = server_env.ask()
        terminal = server_env.cli_env.spawn("resume", handle_of(run_id), "blue")
        engine = psutil.Process(server_env.cli_env.meet())
    with server_env.opened():
        assert server_env.run(run_id).state is State.RUNNING
        assert engine.is_running()
        server_env.cli_env.release()
        terminal.communicate(timeout=60)
        assert (terminal.returncode, server_env.run(run_id).state) == (0, State.SUCCEEDED)


@pytest.mark.long
def test_two_terminals_give_one_reply(server_env: ServerEnv) -> None:
    """The second terminal is rejected, and the error names the first one's process."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1), more=[["meet"]]))
    run_id, _ = server_env.ask()
    terminal = server_env.cli_env.spawn("resume", handle_of(run_id), "blue")
    server_env.cli_env.meet()
    said = resumed(server_env.cli_env, run_id, "red")
    assert (said.code, f"in use by process {terminal.pid}" in said.err) == (2, True)
    server_env.cli_env.release()
    terminal.communicate(timeout=60)
    assert (terminal.returncode, server_env.run(run_id).state) == (0, State.SUCCEEDED)


def test_another_session_fails_the_run_and_is_told(server_env: ServerEnv) -> None:
    """A resume that returns another session exits with 4, and the run fails as it would on the server."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("Who?", session=d.OTHER))
    run_id, _ = server_env.ask()
    said = resumed(server_env.cli_env, run_id)
    assert (said.code, f"but got {d.OTHER}" in said.err) == (4, True)
    assert server_env.failed(run_id).code == "SESSION_RESUME_FAILED"
    assert server_env.cli_env.record(handle_of(run_id))["session"]["value"] == d.SESSION


def test_a_turn_that_failed_in_an_intact_session_is_told(server_env: ServerEnv) -> None:
    """The terminal says that the run can go on, and how."""
    server_env.cli_env.engine("codex", d.codex(ASK), [["stderr", "429 Too Many Requests\n"], ["exit", 1]])
    run_id, _ = server_env.ask()
    said = resumed(server_env.cli_env, run_id)
    assert f"the session is intact; the run can go on: POST /v1/runs/{run_id}/continue" in said.err


def test_a_reply_that_no_process_got_is_returned(server_env: ServerEnv) -> None:
    """An error after the reply was taken and before the engine runs leaves the run waiting; the exit code is 2."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    (server_env.run(run_id).run_directory / ".turngate" / "attempt-002").touch()
    said = resumed(server_env.cli_env, run_id)
    assert (said.code, "nothing was sent" in said.err, "can't be written" in said.err) == (2, True, True), said
    assert server_env.run(run_id).state is State.WAITING_USER
    unsent = runs.unsent_reply(server_env.server.store, run_id)
    assert unsent is not None
    assert unsent.code == "ORCHESTRATOR_ERROR"


def test_a_workspace_is_not_shared_with_a_run_of_the_server(server_env: ServerEnv) -> None:
    """An ended run is not continued while another unfinished run uses its workspace."""
    server_env.server.close()
    (server_env.cli_env.root / "shared" / "w").mkdir(parents=True)
    server_env.cli_env.engine("codex", d.codex(final(x=1)), d.codex(ASK))
    with server_env.opened(workspace_root=server_env.cli_env.root / "shared"):
        ended = server_env.create(workspace="w")
        server_env.wait(ended, State.SUCCEEDED)
        busy, _ = server_env.ask(workspace="w")
        said = resumed(server_env.cli_env, ended)
        assert (said.code, f"the unfinished run {busy} is using" in said.err) == (2, True)
