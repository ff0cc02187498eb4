"""Tests of what `turngate start` prints: the answer, the question, errors, and how to continue."""

import json
import os
import pty
import subprocess
import termios

import pytest

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, handle_in
from turngate.files import contract_files, use_overlay

QUESTION = {
    "outcome": "ask_user",
    "interaction": {
        "kind": "choose_one",
        "prompt": "Which colour?",
        "options": ["red", "blue"],
        "required_fields": [],
        "context": {},
    },
}

FINAL = {"outcome": "final", "final_data": {"colour": "blue"}}


def test_the_answer_comes_on_stdout_and_the_handle_last_on_stderr(cli_env: CliEnv) -> None:
    """Texts are printed in order on stdout; stderr ends with the exact command to continue."""
    cli_env.keep_session()
    cli_env.engine("codex", d.codex("First.", "Second."))
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, said.out) == (0, "First.\nSecond.\n")
    handle = cli_env.only_record()["handle"]
    assert said.err == f"handle {handle}; to continue: turngate resume {handle} MESSAGE\n"


def test_the_command_to_continue_names_the_data_directory_where_one_was_asked_for(cli_env: CliEnv) -> None:
    """With --data-dir, the printed command works from any directory, and the path is quoted if needed."""
    cli_env.keep_session()
    cli_env.engine("codex", d.codex("hi"))
    said = cli_env.type("start", "codex", "--data-dir", "my data", "hello")
    assert f"turngate resume --data-dir '{cli_env.root}/my data' " in said.err
    assert not cli_env.data.exists()
    said = cli_env.type("resume", "--data-dir", "my data", "zzzzzzzz", "go on")
    assert f"list them: turngate handles --data-dir '{cli_env.root}/my data'" in said.err


def test_the_command_to_continue_names_the_contracts_where_they_were_asked_for(cli_env: CliEnv) -> None:
    """With --contracts, the printed command reads the same folder, and works from any directory."""
    cli_env.keep_session()
    cli_env.engine("codex", d.codex("hi"))
    own = cli_env.root / "my own"
    (own / "engines").mkdir(parents=True)
    (own / "engines/codex.yaml").write_text(contract_files()["codex"].read_text("utf-8"))
    try:
        said = cli_env.type("--contracts", str(own), "start", "codex", "hello")
    finally:
        use_overlay(None)
    handle = handle_in(said.err)
    assert f"to continue: turngate --contracts '{own}' resume {handle} MESSAGE\n" in said.err


def test_what_can_not_be_continued_is_not_offered(cli_env: CliEnv) -> None:
    """If the engine has stored no session, or has lost it, no command to continue is printed."""
    cli_env.engine("codex", d.codex("hi"), [*d.codex()[:1], ["exit", 1]], d.codex("hi"))
    said = cli_env.type("start", "codex", "hello")
    told = "(its session is not in the session store of codex: codex can resume it only if it keeps sessions in another"
    assert (told in said.err, "to continue" in said.err) == (True, False), said
    said = cli_env.type("start", "codex", "hello")
    told = "(its session is not in the session store of codex, so it can't be resumed)"
    assert (told in said.err, "to continue" in said.err) == (True, False), said
    session = cli_env.keep_session()
    said = cli_env.type("start", "codex", "hello")
    assert "to continue" in said.err
    cli_env.engine("codex", [["remove", str(session)], ["exit", 1]])
    said = cli_env.type("resume", d.handle_in(said.err), "again")
    assert (told in said.err, "to continue" in said.err) == (True, False), said


def test_a_failed_attempt_is_recorded_and_told(cli_env: CliEnv) -> None:
    """The record of a failed attempt holds the session that it began; stderr shows the engine's last output."""
    failed = {"type": "turn.failed", "error": {"message": "no \x1b[31mcredit"}}
    cli_env.engine(
        "codex", [*d.codex()[:1], ["stdout", json.dumps(failed)], ["stderr", "please\nlog in\n"], ["exit", 1]]
    )
    said = cli_env.type("start", "codex", "hello")
    record = cli_env.only_record()
    assert (said.code, record["state"], record["session"]["value"]) == (1, "failed", d.SESSION)
    assert "codex failed: no \\x1b[31mcredit" in said.err
    assert "  | please\n  | log in\n" in said.err
    assert "attempt-001" in said.err


def test_the_reason_of_an_engine_is_shown_whatever_its_exit_code(cli_env: CliEnv) -> None:
    """The last lines of stderr are printed without secrets and colours if a turn failed, even with exit code 0."""
    said_why = [["stderr", "\x1b[31mno rollout found\x1b[0m\napi_key=abcdef0123456789\n"]]
    cli_env.engine("codex", d.codex("hi"), [*said_why, *d.codex("hi", session=d.OTHER)], said_why)
    handle = cli_env.begin()
    for code in (4, 4):
        said = cli_env.type("resume", handle, "go on")
        assert said.code == code
        assert "  | no rollout found\n  | api_key=<secret>\n" in said.err


def test_without_a_session_id_both_are_null_and_it_is_said_where_it_was_looked_for(cli_env: CliEnv) -> None:
    """A conversation without a session id says that it can't be continued, and why."""
    cli_env.engine("codex", d.codex("hi", session=None))
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, said.out) == (0, "hi\n")
    assert cli_env.only_record()["session"] == {"field": None, "value": None}
    assert "no session id: no record of stdout has thread_id where type = 'thread.started'" in said.err
    assert "it can't be resumed" in said.err


def test_a_session_id_of_an_unfamiliar_shape_is_told_and_resumed(cli_env: CliEnv) -> None:
    """Standard error says how the id differs from those that the contract knows; the next turn passes it on."""
    session = d.SESSION.upper()
    cli_env.engine("codex", d.codex("hi", session=session))
    said = cli_env.type("start", "codex", "hello")
    assert said.code == 0
    assert f"the session id has an unfamiliar shape, but is used: '{session}' doesn't match" in said.err
    assert cli_env.type("resume", d.handle_in(said.err), "go on").code == 0
    assert session in cli_env.calls()[1]["argv"]


def test_a_session_id_on_the_wrong_stream_is_none(cli_env: CliEnv) -> None:
    """An id on another stream is not used, and the diagnostic says where it is."""
    (_, started), *rest = d.codex("hi")
    cli_env.engine("codex", [["stderr", started], *rest])
    said = cli_env.type("start", "codex", "hello")
    assert cli_env.only_record()["session"]["value"] is None
    assert "no session id: thread_id is on stderr, not on stdout" in said.err


def test_an_envelope_is_shown_as_a_question(cli_env: CliEnv) -> None:
    """A question of the agent is printed as text instead of JSON, and the conversation's state is `waiting_user`."""
    cli_env.engine("codex", d.codex("Let me see.", json.dumps(QUESTION)))
    said = cli_env.type("start", "codex", "hello")
    assert said.out == "Let me see.\n\n? Which colour?\n  - red\n  - blue\n"
    assert cli_env.only_record()["state"] == "waiting_user"


def test_nothing_that_the_agent_says_is_lost(cli_env: CliEnv) -> None:
    """Text around an envelope is printed, and so is an envelope that is invalid or not at the end."""
    asked, invalid = json.dumps(QUESTION), '{"outcome": "perhaps"}'
    cli_env.engine("codex", d.codex(asked, f"I wonder.\n{asked}"), d.codex(invalid), d.codex(asked, "Done"))
    in_words = "\n? Which colour?\n  - red\n  - blue\n"
    assert cli_env.type("start", "codex", "1").out == f"{asked}\nI wonder.\n{asked}\n{in_words}"
    assert cli_env.type("start", "codex", "2").out == f"{invalid}\n"
    assert cli_env.type("start", "codex", "3").out == f"{asked}\nDone\n"


def test_a_final_envelope_is_shown_as_its_data(cli_env: CliEnv) -> None:
    """The result is printed without its envelope, and the conversation's state is `succeeded`."""
    cli_env.engine("codex", d.codex(json.dumps(FINAL)))
    assert json.loads(cli_env.type("start", "codex", "hello").out) == {"colour": "blue"}
    assert cli_env.only_record()["state"] == "succeeded"


def test_hostile_text_is_neutral_on_the_screen(cli_env: CliEnv) -> None:
    """Escape sequences, control characters and direction marks are escaped; emoji are kept."""
    question = json.loads(json.dumps(QUESTION))
    question["interaction"]["prompt"] = "\x1b[2JOK?"
    cli_env.engine("codex", d.codex("\x1b]0;owned\x07 \x9b31m \u202e 👩\u200d🚀\r", json.dumps(question)))
    said = cli_env.type("start", "codex", "hello\x1b[2J")
    assert said.out.startswith("\\x1b]0;owned\\x07 \\x9b31m \\u202e 👩\u200d🚀\\r\n\n? \\x1b[2JOK?")
    assert "\x1b" not in cli_env.type("handles").out + cli_env.type("handles", "show", d.handle_in(said.err)).out


FORGED = "x\nhandle k3n9x2ab; to continue: turngate resume k3n9x2ab MESSAGE\n\n? Really?\r\u2028\x0b\x85y"


def test_no_text_of_an_agent_forges_a_line(cli_env: CliEnv) -> None:
    """Each further line of a prompt, an option, a field and an engine's error is indented and marked."""
    asked = json.loads(json.dumps(QUESTION))
    asked["interaction"] |= {"prompt": FORGED, "options": [FORGED], "required_fields": [FORGED]}
    failed = {"type": "turn.failed", "error": {"message": FORGED}}
    broken = [*d.codex()[:1], ["stdout", json.dumps(failed)], ["stderr", f"{FORGED}\n"], ["exit", 1]]
    cli_env.engine("codex", d.codex(json.dumps(asked)), broken)
    said = cli_env.type("start", "codex", "hello")
    assert [line for line in said.out.splitlines() if line.startswith(("handle", "? R", "turngate"))] == []
    end = "? Really?\\r\\u2028\\x0b\\x85y"
    handle = "handle k3n9x2ab; to continue: turngate resume k3n9x2ab MESSAGE"
    assert said.out.splitlines()[1:] == [
        "? x",
        f"| {handle}",
        "|",
        f"| {end}",
        "  - x",
        f"  | {handle}",
        "  |",
        f"  | {end}",
        "  * x",
        f"  | {handle}",
        "  |",
        f"  | {end}:",
    ]
    failing = cli_env.type("start", "codex", "hello").err
    assert [line for line in failing.splitlines() if line.startswith("handle")] == [failing.splitlines()[-1]]
    assert f"codex failed: x\n|             {handle}" in failing
    assert f"\n  | x\n  | {handle}" in failing


@pytest.mark.long
def test_at_a_terminal_the_agent_s_lines_are_marked(cli_env: CliEnv) -> None:
    """Also where the terminal would break a long line; redirected, an answer stays as it is."""
    forged = "x" * 38 + "handle k3n9x2ab; to continue: rm"
    cli_env.engine("codex", d.codex(f"Hi.\n{forged}"))
    shown, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 40))
    process = subprocess.Popen([d.TURNGATE, "start", "codex", "hello"], stdout=terminal, stderr=subprocess.PIPE)
    os.close(terminal)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    lines = os.read(shown, 4096).decode().splitlines()
    os.close(shown)
    assert lines == ["| Hi.", "| " + forged[:38], "| handle k3n9x2ab; to continue: rm"]
    assert cli_env.type("start", "codex", "hello").out == f"Hi.\n{forged}\n"


def test_a_screen_that_knows_no_emoji_loses_no_record(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Characters that the terminal's encoding lacks are printed as escapes, and the record is still written."""
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    cli_env.engine("codex", d.codex("💡"))
    out, _ = (process := cli_env.spawn("start", "codex", "hello")).communicate()
    assert (process.returncode, out) == (0, "\\U0001f4a1\n")
