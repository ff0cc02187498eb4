"""`turngate start`: the run directory, the handle, the answer on the screen, the record, the exit code."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import jsonschema
import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, Play
from turngate.contract import load
from turngate.errors import EnvironmentFailed
from turngate.process import execution
from turngate_reference import data_dir, handle_record
from turngate_reference.handle_record import HandleRecord

ALPHABET = "[2-9a-hjkmnp-tv-z]"
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


def test_a_run_directory_is_named_by_time_engine_and_handle(cli_env: CliEnv) -> None:
    """The run directory is `<UTC timestamp>-<engine>-<handle>` below the data directory, which is its user's alone."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    (run,) = (cli_env.data / "runs").iterdir()
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}Z-codex-{ALPHABET}{{8}}", run.name)
    assert run.name.endswith(handle)
    assert cli_env.data.stat().st_mode & 0o077 == 0


def test_handles_are_of_characters_that_can_not_be_misread() -> None:
    """No 0 and o, no 1, i and l, no u and v together; all in lower case."""
    assert set(data_dir.ALPHABET) == set("23456789abcdefghjkmnpqrstvwxyz")


def test_a_new_handle_is_none_that_exists(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handle that is taken, by a lock or by a record alone, is not given again."""
    cli_env.engine("codex", d.codex("hi"))
    first = cli_env.begin()
    (cli_env.data / "handles" / f"{first}.lock").unlink()
    drawn = iter(first + "22222222")
    monkeypatch.setattr("secrets.choice", lambda _: next(drawn))
    assert cli_env.begin() == "22222222"
    drawn = iter("22222222" + "33333333")
    assert cli_env.begin() == "33333333"


def test_the_answer_comes_on_stdout_and_the_handle_last_on_stderr(cli_env: CliEnv) -> None:
    """Texts are printed in their order; the exact command to continue is what stderr ends with."""
    cli_env.engine("codex", d.codex("First.", "Second."))
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, said.out) == (0, "First.\nSecond.\n")
    handle = cli_env.only_record()["handle"]
    assert said.err == f"handle {handle}; to continue: turngate resume {handle} MESSAGE\n"


@pytest.mark.parametrize("more, code", [([], 0), ([["stdout", '{"type": "turn.failed"}\n']], 1)])
def test_an_engine_that_stays_after_its_turn_is_ended(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch, more: list[d.Step], code: int
) -> None:
    """It is told of, and as it has no exit code of its own the turn decides: 0 if it went well, else 1."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.2)
    cli_env.engine("codex", [*d.codex("hi"), *more, ["hang"]])
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, said.out) == (code, "hi\n")
    assert "codex was ended: it was still running" in said.err
    assert cli_env.only_record()["session"]["value"] == d.SESSION


def test_the_command_to_continue_names_the_data_directory_where_one_was_asked_for(cli_env: CliEnv) -> None:
    """With --data-dir the command that is printed works from any directory, however the path must be quoted."""
    cli_env.engine("codex", d.codex("hi"))
    said = cli_env.type("start", "codex", "--data-dir", "my data", "hello")
    assert f"turngate resume --data-dir '{cli_env.root}/my data' " in said.err
    assert not cli_env.data.exists()


def test_the_prompt_is_passed_unaltered(cli_env: CliEnv) -> None:
    """What the engine gets is what was typed, blanks and newlines included."""
    cli_env.engine("codex", d.codex("hi"))
    prompt = "  two\n\nlines\t💡 \n"
    cli_env.begin("codex", prompt)
    assert cli_env.calls()[0]["stdin"] == prompt
    assert cli_env.only_record()["prompt"] == "two lines 💡"


def test_a_prompt_may_look_like_an_option(cli_env: CliEnv) -> None:
    """After `--` a prompt that looks like an option is one; before it, it is refused instead of guessed at."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin("codex", "--", "--yolo")
    assert cli_env.calls()[0]["stdin"] == "--yolo"
    said = cli_env.type("start", "codex", "--yolo")
    assert (said.code, "begins with a dash after `--`" in said.err, len(cli_env.calls())) == (2, True, 1)


def test_engine_options_may_follow_a_prompt_that_looks_like_one(cli_env: CliEnv) -> None:
    """A second `--` begins the engine's options, as the help says."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin("codex", "--", "-v or -q?", "--", "--add-dir", "../docs")
    (call,) = cli_env.calls()
    assert (call["stdin"], call["argv"][3:5]) == ("-v or -q?", ["--add-dir", "../docs"])
    assert '-- "-v or -q?" -- --add-dir ../docs' in cli_env.type("start", "--help").out


@pytest.mark.parametrize(
    "words",
    [(), ("codex",), ("--mode", "auto", "codex", "hi"), ("codex", "two", "words"), ("codex", "hi", "--model", "m")],
)
def test_a_command_line_that_is_not_understood_is_refused(cli_env: CliEnv, words: tuple[str, ...]) -> None:
    """Without engine or prompt, or with unquoted words, nothing is run."""
    cli_env.engine("codex", d.codex("hi"))
    assert cli_env.type("start", *words).code == 2
    assert cli_env.calls() == []


def test_mode_interactive_is_the_default_and_passes_no_auto_flag(cli_env: CliEnv) -> None:
    """Without --mode the engine gets no option that lets it act without asking."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin()
    assert cli_env.calls()[0]["argv"] == ["exec", "--json", "--skip-git-repo-check", "-"]
    assert cli_env.only_record()["launch"]["mode"] == "interactive"


def test_mode_auto_passes_the_auto_flags(cli_env: CliEnv) -> None:
    """Mode auto passes them on the start and on every resume."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin("codex", "--mode", "auto", "hello")
    assert cli_env.type("resume", handle, "go on").code == 0
    assert all("--sandbox workspace-write" in " ".join(call["argv"]) for call in cli_env.calls())


@pytest.mark.parametrize("flag", ["--yolo", "--sandbox=danger-full-access", "-sworkspace-write"])
def test_an_auto_flag_is_refused_in_mode_interactive(cli_env: CliEnv, flag: str) -> None:
    """An option that lets the engine act without asking is named and nothing is run, nor kept."""
    cli_env.engine("codex", d.codex("hi"))
    said = cli_env.type("start", "codex", "hello", "--", flag)
    assert said.code == 2
    assert flag in said.err
    assert cli_env.calls() == []
    assert not (cli_env.data / "runs").exists()


def test_the_engine_works_in_the_run_directory_or_where_cwd_says(cli_env: CliEnv) -> None:
    """Without --cwd the engine works in the run directory; a --cwd is made absolute; one that is not there is told."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin()
    assert cli_env.calls()[0]["cwd"] == cli_env.only_record()["runDirectory"]
    (cli_env.root / "project").mkdir()
    handle = cli_env.begin("codex", "--cwd", "project", "hello")
    assert cli_env.calls()[1]["cwd"] == cli_env.calls()[1]["pwd"] == str(cli_env.root / "project")
    assert cli_env.record(handle)["launch"]["cwd"] == str(cli_env.root / "project")
    said = cli_env.type("start", "codex", "--cwd", "nowhere", "hello")
    assert (said.code, "there is no directory nowhere" in said.err) == (2, True)


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems take UTF-8 alone")
def test_a_directory_whose_name_is_no_text_is_kept(cli_env: CliEnv) -> None:
    """A path of bytes that are no UTF-8 survives in the record."""
    cli_env.engine("codex", d.codex("hi"))
    odd = os.fsdecode(os.fsencode(cli_env.root) + b"/\xff")
    Path(odd).mkdir()
    handle = cli_env.begin("codex", "--cwd", odd, "hello")
    assert cli_env.type("resume", handle, "go on").code == 0
    assert [call["cwd"] for call in cli_env.calls()] == [odd, odd]


def test_the_engine_gets_the_environment_of_the_person(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine runs with the person's login and configuration: their environment, and PWD as a shell sets it."""
    cli_env.engine("codex", [["env", "MINE"], *d.codex("hi")])
    monkeypatch.setenv("MINE", "my login")
    cli_env.begin()
    (kept,) = cli_env.root.rglob("attempt-001/stderr")
    assert kept.read_text() == "MINE=my login\n"
    (call,) = cli_env.calls()
    assert call["pwd"] == call["cwd"]


def test_the_traces_of_each_attempt_are_kept(cli_env: CliEnv) -> None:
    """Command, stdout and stderr of each attempt lie in the run directory."""
    cli_env.engine("codex", [*d.codex("hi"), ["stderr", "a warning\n"]])
    handle = cli_env.begin()
    cli_env.type("resume", handle, "go on")
    folder = Path(cli_env.only_record()["runDirectory"]) / ".turngate"
    assert sorted(each.name for each in folder.iterdir()) == ["attempt-001", "attempt-002"]
    first = folder / "attempt-001"
    assert "thread.started" in (first / "stdout").read_text()
    assert (first / "stderr").read_text() == "a warning\n"
    assert json.loads((first / "command.json").read_text())["argv"][1:] == cli_env.calls()[0]["argv"]


def test_json_prints_the_record_instead(cli_env: CliEnv) -> None:
    """With --json stdout is the record, which validates, and stderr holds no more than diagnostics."""
    cli_env.engine("codex", d.codex("hi"))
    said = cli_env.type("start", "codex", "--json", "hello")
    record = json.loads(said.out)
    jsonschema.validate(record, load.schema("handle-record"))
    assert record == cli_env.only_record()
    assert said.err == ""


@pytest.mark.parametrize("code", [0, 1, 2, 7, 42, 55])
def test_the_exit_code_of_the_engine_is_ours(cli_env: CliEnv, code: int) -> None:
    """Whatever code the engine ends with is what start and resume end with."""
    cli_env.engine("codex", [*d.codex("hi"), ["exit", code]])
    said = cli_env.type("start", "codex", "hello")
    assert said.code == code
    assert cli_env.type("resume", d.handle_in(said.err), "go on").code == code


def test_an_engine_that_a_signal_ended_gives_128_and_its_number(cli_env: CliEnv) -> None:
    """As in a shell, a signal counts from 128, and it is named."""
    cli_env.engine("codex", [*d.codex("hi"), ["signal", signal.SIGKILL]])
    said = cli_env.type("start", "codex", "hello")
    assert said.code == 128 + signal.SIGKILL
    assert "codex died of signal 9" in said.err


def test_a_failed_attempt_is_recorded_and_told(cli_env: CliEnv) -> None:
    """The record of a failed attempt holds the session that it began; stderr shows the engine's last words."""
    failed = {"type": "turn.failed", "error": {"message": "no \x1b[31mcredit"}}
    cli_env.engine(
        "codex", [*d.codex()[:1], ["stdout", json.dumps(failed)], ["stderr", "please\nlog in\n"], ["exit", 1]]
    )
    said = cli_env.type("start", "codex", "hello")
    record = cli_env.only_record()
    assert (said.code, record["state"], record["session"]["value"]) == (1, "failed", d.SESSION)
    assert "codex failed: no \\x1b[31mcredit" in said.err
    assert "  log in\n" in said.err
    assert "attempt-001" in said.err


def test_an_engine_that_can_not_be_started_is_recorded(cli_env: CliEnv) -> None:
    """An executable that vanished after it was asked for its version leaves a failed record."""
    executable = cli_env.engine("codex", d.codex("hi"))
    cli_env.begin("codex", "hello")
    handle = cli_env.only_record()["handle"]
    executable.write_text("#!/nowhere/python\n")
    executable.chmod(0o755)
    known = cli_env.data / "versions.json"
    stat = executable.stat()
    identity = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
    known.write_text(json.dumps({str(executable): [identity, "0.169.0"]}))
    said = cli_env.type("resume", handle, "go on")
    assert (said.code, "was not started" in said.err) == (2, True)
    assert f"the handle is {handle}: turngate handles show {handle}" in said.err
    assert (cli_env.record(handle)["state"], cli_env.record(handle)["session"]["value"]) == ("failed", d.SESSION)


def test_a_start_that_fails_says_the_handle_that_there_is_by_then(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A conversation whose first attempt could not be run or written down is found again."""
    cli_env.engine("codex", d.codex("hi"))
    written = handle_record.write

    def full(path: Path, record: HandleRecord) -> None:
        if record.state == "answered":
            raise EnvironmentFailed("no room", "make room")
        written(path, record)

    monkeypatch.setattr(handle_record, "write", full)
    said = cli_env.type("start", "codex", "hello")
    handle = cli_env.only_record()["handle"]
    assert said.code == 2
    assert f"make room; the handle is {handle}: turngate handles show {handle}" in said.err


@pytest.mark.parametrize(
    "play,why",
    [(d.codex("hi")[:-1], "nothing proves that its turn ended"), (d.codex(), "gave no answer")],
)
def test_a_turn_that_only_looks_well_is_told(cli_env: CliEnv, play: Play, why: str) -> None:
    """Exit code 0 without the end of the turn, or without an answer, is said and recorded as failed."""
    cli_env.engine("codex", play)
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, cli_env.only_record()["state"]) == (0, "failed")
    assert why in said.err


@pytest.mark.parametrize(
    "engine,play,field,value",
    [
        ("codex", d.codex("hi"), "thread_id", d.SESSION),
        ("gemini", d.gemini("hi"), "session_id", d.SESSION),
        ("iflow", d.recorded("main-first"), "session-id", d.IFLOW_SESSION),
        ("opencode", d.opencode("hi"), "sessionID", d.OPENCODE_SESSION),
    ],
)
def test_the_record_holds_the_session_by_the_engines_own_name(
    cli_env: CliEnv, engine: str, play: Play, field: str, value: str
) -> None:
    """session.field is the name that the engine gives its id."""
    cli_env.engine(engine, play)
    handle = cli_env.begin(engine)
    record = cli_env.record(handle)
    assert record["session"] == {"field": field, "value": value}
    assert record["agentName"] == engine
    assert (record["runId"], record["handle"]) == (Path(record["runDirectory"]).name, handle)


def test_without_a_session_id_both_are_null_and_it_is_said_where_it_was_looked_for(cli_env: CliEnv) -> None:
    """A conversation that can't be continued says so, and why."""
    cli_env.engine("codex", d.codex("hi", session=None))
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, said.out) == (0, "hi\n")
    assert cli_env.only_record()["session"] == {"field": None, "value": None}
    assert "no session id was found: no record of stdout has thread_id where type = 'thread.started'" in said.err
    assert "it can't be resumed" in said.err


def test_a_session_id_on_the_wrong_stream_is_none(cli_env: CliEnv) -> None:
    """An id that moved is not taken, and the diagnostic says where it stands."""
    (_, started), *rest = d.codex("hi")
    cli_env.engine("codex", [["stderr", started], *rest])
    said = cli_env.type("start", "codex", "hello")
    assert cli_env.only_record()["session"]["value"] is None
    assert "no session id was found: thread_id stands on stderr, not on stdout" in said.err


def test_an_envelope_is_shown_as_a_question(cli_env: CliEnv) -> None:
    """A question of the agent is printed in words, not as JSON, and the conversation counts as asked."""
    cli_env.engine("codex", d.codex("Let me see.", json.dumps(QUESTION)))
    said = cli_env.type("start", "codex", "hello")
    assert said.out == "Let me see.\n\n? Which colour?\n  - red\n  - blue\n"
    assert cli_env.only_record()["state"] == "asked"


def test_nothing_that_the_agent_says_is_lost(cli_env: CliEnv) -> None:
    """Prose round an envelope is printed, so is an envelope that is not the end, or no valid one."""
    asked, invalid = json.dumps(QUESTION), '{"outcome": "perhaps"}'
    cli_env.engine("codex", d.codex(asked, f"I wonder.\n{asked}"), d.codex(invalid), d.codex(asked, "Done"))
    in_words = "\n? Which colour?\n  - red\n  - blue\n"
    assert cli_env.type("start", "codex", "1").out == f"{asked}\nI wonder.\n{asked}\n{in_words}"
    assert cli_env.type("start", "codex", "2").out == f"{invalid}\n"
    assert cli_env.type("start", "codex", "3").out == f"{asked}\nDone\n"


def test_a_final_envelope_is_shown_as_its_data(cli_env: CliEnv) -> None:
    """The result is printed without its wrapping, and the conversation counts as answered."""
    cli_env.engine("codex", d.codex(json.dumps(FINAL)))
    assert json.loads(cli_env.type("start", "codex", "hello").out) == {"colour": "blue"}
    assert cli_env.only_record()["state"] == "answered"


def test_hostile_text_is_neutral_on_the_screen(cli_env: CliEnv) -> None:
    """Escape sequences, control characters and changes of direction are shown, not obeyed; emoji stay whole."""
    question = json.loads(json.dumps(QUESTION))
    question["interaction"]["prompt"] = "\x1b[2JOK?"
    cli_env.engine("codex", d.codex("\x1b]0;owned\x07 \x9b31m \u202e 👩\u200d🚀\r", json.dumps(question)))
    said = cli_env.type("start", "codex", "hello\x1b[2J")
    assert said.out.startswith("\\x1b]0;owned\\x07 \\x9b31m \\u202e 👩\u200d🚀\\r\n\n? \\x1b[2JOK?")
    assert "\x1b" not in cli_env.type("handles").out + cli_env.type("handles", "show", d.handle_in(said.err)).out


def test_a_screen_that_knows_no_emoji_loses_no_record(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the terminal's encoding can't show is written as its escape."""
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    cli_env.engine("codex", d.codex("💡"))
    out, _ = (process := cli_env.spawn("start", "codex", "hello")).communicate()
    assert (process.returncode, out) == (0, "\\U0001f4a1\n")
