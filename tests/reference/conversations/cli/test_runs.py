"""Tests of `turngate runs` and `turngate reply` against a server on a real socket."""

import io
import json
import sys
from collections.abc import Iterator

import pytest

from tests.longer import first_quick
from tests.reference import cli_env as d
from tests.reference.caller import Caller
from tests.reference.cli_env import CliResult
from tests.reference.server_env import ASK, ServerEnv, final
from tests.reference.wire import served
from turngate_reference.server.store import runs
from turngate_reference.states import State


@pytest.fixture(name="env")
def _env(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerEnv]:
    """Serve a Codex that asks in turn 1 and ends the run in turn 2."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="red")))
    with served(Caller(server_env.server)) as port:
        monkeypatch.setenv("TURNGATE_URL", f"http://127.0.0.1:{port}")
        yield server_env


def reply(env: ServerEnv, run_id: str, *words: str) -> tuple[CliResult, str | None]:
    """Run `turngate reply`; return its result and the reply that the engine got."""
    said = env.cli_env.type("reply", *words)
    if said.code == 0:
        env.wait(run_id, State.SUCCEEDED)
    return said, runs.last_answer(env.server.store, run_id, 2)


def test_waiting_runs_come_first_with_their_question(env: ServerEnv) -> None:
    """Waiting runs come before the newest ones; options are numbered, and the reply command is shown."""
    run_id, _ = env.ask()
    later = env.create()
    env.wait(later, State.SUCCEEDED, State.FAILED)
    handle = run_id[-8:]
    said = env.cli_env.type("runs")
    lines = said.out.splitlines()
    assert (lines[0].split()[0], lines[1:5]) == (
        handle,
        ["  ? Which colour?", "    1. red", "    2. blue", f"  turngate reply {handle} TEXT"],
    )
    assert lines[-1].split()[0] == later[-8:]
    assert said.code == 0
    waiting = env.cli_env.type("runs", "--waiting").out
    assert handle in waiting
    assert later[-8:] not in waiting


def test_an_empty_list_says_so_where_no_program_reads_it(env: ServerEnv) -> None:
    """A person learns that there are no runs, and none that wait; stdout stays empty."""
    for words, told in (((), "no runs yet on "), (("--waiting",), "no run waits for you on ")):
        said = env.cli_env.type("runs", *words)
        assert (said.code, said.out, said.err[: len(told)]) == (0, "", told)


def test_no_question_forges_a_line_of_the_list(env: ServerEnv) -> None:
    """Each further line of a prompt, an option and a field is indented and marked; the list has one reply command."""
    forged = "x\n  turngate reply k3n9x2ab 'rm -rf ~'\n\nk3n9x2ab  2026-11-22 20:45  codex      waiting_user"
    asked = json.loads(ASK)
    asked["interaction"] |= {"prompt": forged, "options": [forged, "blue"], "required_fields": [forged]}
    env.cli_env.engine("codex", d.codex(json.dumps(asked)), d.codex(final(colour="red")))
    run_id, _ = env.ask()
    lines = env.cli_env.type("runs").out.splitlines()
    hint, row = "  turngate reply k3n9x2ab 'rm -rf ~'", "k3n9x2ab  2026-11-22 20:45  codex      waiting_user"
    assert lines[1:] == [
        "  ? x", f"  | {hint}", "  |", f"  | {row}",
        "    1. x", f"    |  {hint}", "    |", f"    |  {row}", "    2. blue",
        "    * x", f"    | {hint}", "    |", f"    | {row}:",
        f"  turngate reply {run_id[-8:]} TEXT", "",
    ]  # fmt: skip
    sent, _ = reply(env, run_id, run_id[-8:], "--option", "1")
    assert sent.out.splitlines()[0] == f"sent to {run_id[-8:]}: x"
    assert all(line.startswith("|") for line in sent.out.splitlines()[1:])


def test_the_list_as_json_is_that_of_the_api(env: ServerEnv) -> None:
    """The JSON list holds the API's data, including each open question."""
    run_id, question = env.ask()
    (listed,) = json.loads(env.cli_env.type("runs", "--json").out)
    assert (listed["run_id"], listed["pending"]["interaction_id"]) == (run_id, question.interaction_id)
    assert "links" in listed


@pytest.mark.parametrize(
    "words, sent",
    first_quick(
        [
            (("BLUE",), "blue"),
            (("--option", "2"), "blue"),
            (("green",), "green"),
            (("2",), "2"),
            (("--", "--yolo"), "--yolo"),
        ],
        2,
    ),
)
def test_a_reply_reaches_the_run(env: ServerEnv, words: tuple[str, ...], sent: str) -> None:
    """Text is sent unchanged, except for the case of an option; options can also be chosen by number."""
    run_id, _ = env.ask()
    said, reported = reply(env, run_id, run_id[-8:-3], *words)
    assert (said.code, reported) == (0, sent)
    assert said.out == f"sent to {run_id[-8:]}: {sent}\n"


def test_a_reply_is_read_from_standard_input(env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """If TEXT is a dash, the reply is read from standard input, byte for byte."""
    run_id, _ = env.ask()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("grün\nor so\n".encode())))
    said, reported = reply(env, run_id, "--json", run_id[-8:], "-")
    assert reported == "grün\nor so\n"
    assert json.loads(said.out)["run_id"] == run_id


def test_only_text_is_read_from_standard_input(env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Input that isn't UTF-8 is rejected, and the error names the position."""
    run_id, _ = env.ask()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    said = env.cli_env.type("reply", run_id[-8:], "-")
    assert (said.code, env.run(run_id).state) == (2, State.WAITING_USER)
    assert "valid UTF-8 from byte 1 on" in said.err


def test_a_refused_reply_changes_nothing(env: ServerEnv) -> None:
    """A rejected reply exits with 2 and says why."""
    run_id, _ = env.ask()
    handle = run_id[-8:]
    for words, why in (
        ((handle,), "give TEXT or --option N"),
        ((handle, "x", "--option", "1"), "not both"),
        ((handle, "--option", "3"), "the question has 2 options"),
        ((handle, " "), "white space"),
        (("0", "x"), "no run with the handle '0' waits"),
        (("", "x"), "no run with the handle '' waits"),
    ):
        said = env.cli_env.type("reply", *words)
        assert (said.code, said.out) == (2, "")
        assert why in said.err
    assert env.run(run_id).state is State.WAITING_USER


def test_a_handle_must_be_unambiguous(env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a prefix matches two runs, neither gets the reply."""
    env.cli_env.engine("codex", d.codex(ASK), d.codex(ASK))
    first, second = env.ask()[0], env.ask()[0]
    with env.server.store.writing() as connection:
        for number, run_id in enumerate((first, second)):
            connection.execute("UPDATE runs SET handle = ? WHERE run_id = ?", (f"same{number}", run_id))
    said = env.cli_env.type("reply", "same", "red")
    assert said.code == 2
    assert "may be any of same0, same1" in said.err
