"""Tests of starting and resuming a conversation: the engine's commands, the record, and what is rejected."""

import errno
import json
import os
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.executables import headless
from tests.longer import first_quick
from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, Play
from tests.reference.server_env import ASK
from tests.tables import each
from turngate import engine_names
from turngate.argv.file_slot import as_in_contract
from turngate.contract import load
from turngate.errors import MachineError
from turngate.files import write_atomically
from turngate_reference import data_dir, handle_record
from turngate_reference.engine import attempt
from turngate_reference.handle_record import HandleRecord


def test_the_prompt_is_passed_unaltered(cli_env: CliEnv) -> None:
    """The engine gets exactly the prompt that was typed, including blanks and newlines."""
    cli_env.engine("codex", d.codex("hi"))
    prompt = "  two\n\nlines\t💡 \n"
    cli_env.begin("codex", prompt)
    assert cli_env.calls()[0]["stdin"] == prompt
    assert cli_env.only_record()["prompt"] == "two lines 💡"


@each("flag", ["--yolo", "--sandbox=danger-full-access", "-sworkspace-write"])
def test_an_auto_flag_is_refused_in_mode_interactive(cli_env: CliEnv, flag: str) -> None:
    """An option that lets the engine act without asking is named in the error; nothing runs or is written."""
    cli_env.engine("codex", d.codex("hi"))
    said = cli_env.type("start", "codex", "hello", "--", flag)
    assert said.code == 2
    assert flag in said.err
    assert cli_env.calls() == []
    assert not (cli_env.data / "runs").exists()


def test_the_engine_works_in_the_run_directory_or_where_cwd_says(cli_env: CliEnv) -> None:
    """The engine runs in the run directory, or in --cwd, which is made absolute; a missing --cwd is an error."""
    headless(cli_env.engine("codex", d.codex("hi")))  # without a shell, which would set PWD
    cli_env.begin()
    assert cli_env.calls()[0]["cwd"] == cli_env.only_record()["runDirectory"]
    (cli_env.root / "project").mkdir()
    handle = cli_env.begin("codex", "--cwd", "project", "hello")
    assert cli_env.calls()[1]["cwd"] == cli_env.calls()[1]["pwd"] == str(cli_env.root / "project")
    assert cli_env.record(handle)["launch"]["cwd"] == str(cli_env.root / "project")
    said = cli_env.type("start", "codex", "--cwd", "nowhere", "hello")
    assert (said.code, "directory nowhere doesn't exist" in said.err) == (2, True)


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS refuses to create a file name that is not UTF-8")
def test_a_directory_whose_name_is_no_text_is_kept(cli_env: CliEnv) -> None:
    """A path that isn't valid UTF-8 survives in the record."""
    cli_env.engine("codex", d.codex("hi"))
    odd = os.fsdecode(os.fsencode(cli_env.root) + b"/\xff")
    Path(odd).mkdir()
    handle = cli_env.begin("codex", "--cwd", odd, "hello")
    assert cli_env.type("resume", handle, "go on").code == 0
    assert [call["cwd"] for call in cli_env.calls()] == [odd, odd]


def test_the_engine_gets_the_environment_of_the_person(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine gets the user's whole environment, with PWD set as a shell sets it."""
    headless(cli_env.engine("codex", [["env", "MINE"], *d.codex("hi")]))  # without a shell, which would set PWD
    monkeypatch.setenv("MINE", "my login")
    cli_env.begin()
    (kept,) = cli_env.root.rglob("attempt-001/stderr")
    assert kept.read_text() == "MINE=my login\n"
    (call,) = cli_env.calls()
    assert call["pwd"] == call["cwd"]


def test_an_engine_that_can_not_be_started_is_recorded(cli_env: CliEnv) -> None:
    """If the executable disappears after the version check, the error names the handle; the record is as before."""
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
    assert (said.code, "could not be started" in said.err) == (2, True)
    assert f"the handle is {handle}: turngate handles show {handle}" in said.err
    assert (cli_env.record(handle)["state"], cli_env.record(handle)["session"]["value"]) == ("succeeded", d.SESSION)


def test_a_refused_turn_leaves_the_conversation_as_it_was(cli_env: CliEnv) -> None:
    """What turngate refuses before the engine runs is no turn: the question stays open."""
    cli_env.keep_session()
    cli_env.engine("codex", d.codex(ASK))
    (cli_env.root / "project").mkdir()
    handle = cli_env.begin("codex", "--cwd", "project", "hello")
    (cli_env.root / "project" / "AGENTS.md").symlink_to("/etc/hostname")
    before = cli_env.record(handle)
    said = cli_env.type("resume", handle, "blue")
    assert (said.code, "AGENTS.md leads out" in said.err, len(cli_env.calls())) == (2, True, 1)
    assert cli_env.record(handle) == before
    said = cli_env.type("start", "codex", "--cwd", "project", "hello")
    assert (said.code, "the handle is" in said.err, len(cli_env.calls())) == (2, True, 1)
    said = cli_env.type("start", "codex", "--cwd", "project", "--trust-workspace", "project", "hello")
    assert f"turngate resume --trust-workspace {cli_env.root / 'project'} " in said.err


def test_a_session_is_kept_although_its_output_can_not_be(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the disk is full during a first turn, the conversation can go on; the error says that the engine ran."""

    def full(trace: Any, data: bytes, limit: int) -> None:
        whole(trace, data, limit)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    whole = attempt.append_trace
    cli_env.engine("codex", d.codex("hi"))
    with monkeypatch.context() as patch:
        patch.setattr(attempt, "append_trace", full)
        said = cli_env.type("start", "codex", "hello")
    assert (said.code, "No space left on device; codex ran, and may have changed files" in said.err) == (2, True)
    record = cli_env.only_record()
    assert (record["state"], record["session"]["value"]) == ("failed", d.SESSION)


def test_a_start_that_fails_says_the_handle_that_there_is_by_then(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first attempt can't be run, the error names the handle."""
    cli_env.engine("codex", d.codex("hi"))

    def full(_path: Path, _record: HandleRecord) -> None:
        raise MachineError("no room", "make room")

    monkeypatch.setattr(handle_record, "write", full)
    said = cli_env.type("start", "codex", "hello")
    (run,) = (cli_env.data / "runs").iterdir()
    assert said.code == 2
    assert f"make room; the handle is {run.name[-8:]}: turngate handles show {run.name[-8:]}" in said.err
    assert cli_env.calls() == []


@each(
    "engine, play, field, value",
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
    """`session.field` is the name that the engine itself uses for its id."""
    cli_env.engine(engine, play)
    handle = cli_env.begin(engine)
    record = cli_env.record(handle)
    assert record["session"] == {"field": field, "value": value}
    assert record["agentName"] == engine
    assert (record["runId"], record["handle"]) == (Path(record["runDirectory"]).name, handle)


PLAYS: dict[str, Play] = {
    "codex": d.codex("hi"),
    "gemini": d.gemini("hi"),
    "opencode": d.opencode("hi"),
    "iflow": d.recorded("main-first"),
}

LONG = "All work and no play. " * 9500

FLAGS = ["--yolo", "--json", "--help", "-h", "-"]

MESSAGES = [*FLAGS, "💡 ٣ 漢", "two\n\nlines\n", "@file", "/quit", "a b", LONG]

REFUSED = {
    "codex": set[str](),
    "gemini": {"@file", "/quit"},
    "opencode": set[str](),
    "iflow": {"/quit"},
}


@pytest.mark.parametrize("engine", first_quick(PLAYS))
@pytest.mark.parametrize("after_dashes", [False, True], ids=["word", "after --"])
def test_a_message_reaches_the_engine_or_is_refused(
    cli_env: CliEnv, subtests: pytest.Subtests, engine: str, *, after_dashes: bool
) -> None:
    """The engine gets any message as its prompt, never as a flag, or nothing runs."""
    cli_env.engine(engine, PLAYS[engine])
    handle = cli_env.begin(engine)
    assert cli_env.type("resume", handle, "plain").code == 0
    plain = cli_env.calls(engine)[-1]
    for message in MESSAGES:
        before = len(cli_env.calls(engine))
        said = cli_env.type("resume", handle, *(("--", message) if after_dashes else (message,)))
        calls = cli_env.calls(engine)[before:]
        with subtests.test(message=message[:12]):
            if message in REFUSED[engine]:
                assert (said.code, calls) == (2, [])
                assert f"{engine} can't receive this prompt unaltered" in said.err
                continue
            assert said.code == 0, said.err
            (call,) = calls
            assert _prompt_in(call["argv"], call["stdin"]) == message
            if call["stdin"]:
                assert call | {"stdin": "plain"} == plain


def _prompt_in(argv: list[str], stdin: str) -> str:
    """Parse the prompt like the engine's own parser."""
    if "--" in argv:
        return argv[argv.index("--") + 1]
    if "-p" in argv:
        return argv[argv.index("-p") + 1]
    return stdin


@each(
    "engine, argv",
    [
        ("codex", ["exec", "--json", "--skip-git-repo-check", *d.PINNED["codex"], "resume", d.SESSION, "-"]),
        ("gemini", ["--output-format", "json", "--skip-trust", *d.PINNED["gemini"], "--resume", d.SESSION]),
        ("opencode", ["run", "--format", "json", *d.PINNED["opencode"], "--session", d.OPENCODE_SESSION]),
        ("iflow", ["--default", "--resume", d.IFLOW_SESSION]),
    ],
)
def test_the_engines_own_resume_is_executed_in_the_same_directory(
    cli_env: CliEnv, engine: str, argv: list[str]
) -> None:
    """The second call is the engine's own resume of the session, in the first call's directory."""
    cli_env.engine(engine, PLAYS[engine])
    handle = cli_env.begin(engine)
    assert cli_env.type("resume", handle, "go on").code == 0
    first, second = cli_env.calls(engine)
    assert as_in_contract(tuple(second["argv"]), load.contract(engine).at()) == tuple(argv)
    assert second["cwd"] == first["cwd"] == cli_env.record(handle)["runDirectory"]


def test_the_record_is_updated(cli_env: CliEnv) -> None:
    """A resume increments the turns, updates time and state, and changes nothing else."""
    cli_env.engine("codex", d.codex("hi"), [*d.codex(), ["exit", 1]])
    handle = cli_env.begin("codex", "--model", "m", "hello", "--", "--add-dir", "x")
    before = cli_env.record(handle)
    assert cli_env.type("resume", handle, "go on").code == 1
    after = cli_env.record(handle)
    assert after["updatedAt"] > before["updatedAt"]
    assert after | {"updatedAt": before["updatedAt"]} == before | {"turns": 2, "state": "failed"}


def test_a_cwd_is_kept(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume runs in the recorded --cwd, whatever the current directory is."""
    cli_env.engine("codex", d.codex("hi"))
    (cli_env.root / "project").mkdir()
    handle = cli_env.begin("codex", "--cwd", "project", "hello")
    monkeypatch.chdir("/")
    assert cli_env.type("resume", handle, "go on").code == 0
    assert cli_env.calls()[1]["cwd"] == str(cli_env.root / "project")


def test_options_with_values_survive_whole(cli_env: CliEnv) -> None:
    """`--model x` stays two arguments, placed before the subcommand as the engine requires."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin("codex", "hello", "--", "--model", "x", "--add-dir=a/b", "-c", "sandbox_mode='read-only'")
    assert cli_env.record(handle)["launch"]["args"] == [
        "--model",
        "x",
        "--add-dir=a/b",
        "-c",
        "sandbox_mode='read-only'",
    ]
    assert cli_env.type("resume", handle, "go on").code == 0
    argv = cli_env.calls()[1]["argv"]
    own = [*d.PINNED["codex"], "--model", "x", "--add-dir=a/b", "-c", "sandbox_mode='read-only'"]
    assert argv[3 : argv.index("resume")] == own


def test_our_own_model_option_is_kept(cli_env: CliEnv) -> None:
    """A model chosen with --model is also used on resume."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin("codex", "--model", "m", "hello")
    assert cli_env.type("resume", handle, "go on").code == 0
    assert all(call["argv"][3:5] == ["--model", "m"] for call in cli_env.calls())


def test_options_that_a_resume_may_not_carry_are_left_out(cli_env: CliEnv) -> None:
    """Gemini rejects --session-id with --resume, so only the start passes it; the record keeps it."""
    cli_env.engine("gemini", d.gemini("hi"))
    handle = cli_env.begin("gemini", "hello", "--", "--session-id", d.SESSION)
    assert cli_env.type("resume", handle, "go on").code == 0
    assert ["--session-id" in call["argv"] for call in cli_env.calls("gemini")] == [True, False]


def test_an_auto_flag_in_a_record_is_refused(cli_env: CliEnv) -> None:
    """An auto-approve flag added to a record by hand is rejected in mode interactive."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    cli_env.change(handle, {"launch": cli_env.record(handle)["launch"] | {"args": ["--yolo"]}})
    assert cli_env.type("resume", handle, "go on").code == 2
    assert len(cli_env.calls()) == 1


def test_another_session_is_told_and_the_old_one_kept(cli_env: CliEnv) -> None:
    """If the session id differs from the requested one, the exit code is 4, and the record keeps the old id."""
    cli_env.engine("codex", d.codex("hi"), d.codex("Who are you?", session=d.OTHER))
    handle = cli_env.begin()
    said = cli_env.type("resume", handle, "go on")
    assert said.code == 4
    assert f"requested session {d.SESSION}, but got {d.OTHER}" in said.err
    record = cli_env.record(handle)
    assert (record["session"]["value"], record["state"]) == (d.SESSION, "failed")


def test_a_good_end_without_an_id_is_not_taken_for_the_session(cli_env: CliEnv) -> None:
    """An engine that succeeds without a session id may have started a new session, so this counts as another one."""
    cli_env.engine("codex", d.codex("hi"), d.codex("Who are you?", session=None))
    handle = cli_env.begin()
    said = cli_env.type("resume", handle, "go on")
    assert said.code == 4
    assert "no record of stdout has thread_id" in said.err
    assert cli_env.record(handle)["session"]["value"] == d.SESSION


def test_iflow_begins_afresh_with_exit_code_0_and_is_found_out(cli_env: CliEnv) -> None:
    """In its recordings, iFlow answers a dead session with a new one: exit code 4, and the record keeps the old id."""
    cli_env.engine("iflow", *(d.recorded(turn) for turn in ("main-first", "main-again", "bad-handles-dead")))
    handle = cli_env.begin("iflow")
    alive = cli_env.record(handle)["session"]
    assert cli_env.type("resume", handle, "blue").code == 0
    said = cli_env.type("resume", handle, "blue")
    assert said.code == 4
    (fresh,) = re.findall(r"session-[0-9a-f]{8}[0-9a-f-]+", str(d.recorded("bad-handles-dead")))
    assert f"got {fresh}" in said.err
    assert cli_env.record(handle)["session"] == alive


def test_iflow_without_an_answer_has_failed(cli_env: CliEnv) -> None:
    """In its recordings, iFlow exits with 0 when its backend is down; this is printed and recorded as a failure."""
    cli_env.engine("iflow", d.recorded("backend-away-first"))
    said = cli_env.type("start", "iflow", "hello")
    assert "iflow exited with 0, but returned no answer" in said.err
    assert cli_env.only_record()["state"] == "failed"


@pytest.mark.long
@pytest.mark.parametrize("gone", first_quick(["data/handles/{handle}.json", "data", "data/handles"]))
@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
def test_a_record_that_was_deleted_during_the_turn_is_told(
    cli_env: CliEnv, gone: str, options: tuple[str, ...]
) -> None:
    """The answer is printed, but the command fails, names the session, and makes no new directory."""
    cli_env.fifos()
    cli_env.engine("codex", d.codex("Thinking.", ASK, more=[["meet"]]))
    start = cli_env.spawn("start", "codex", *options, "--cwd", str(cli_env.root), "hello")
    cli_env.meet()
    handle = cli_env.only_record()["handle"]
    path = cli_env.root / gone.format(handle=handle)
    (path.unlink if path.is_file() else partial(shutil.rmtree, path))()
    cli_env.release()
    out, err = start.communicate(timeout=PATIENCE)
    assert start.returncode == 6, err
    assert json.loads(out)["handle"] == handle if options else "Thinking.\n\n? Which colour?" in out
    assert f"could not be saved: the record {cli_env.data}/handles/{handle}.json can't be written" in err
    assert "somebody deleted it during the turn" in err
    assert f"turngate can't resume handle {handle}; codex itself has it as session {d.SESSION}" in err
    assert "to continue" not in err
    assert not path.exists()


def test_a_result_that_can_not_be_saved_is_told_after_the_answer(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk is full by then, the answer is still printed, and a resume finds the session in the output."""
    cli_env.keep_session()
    cli_env.engine("codex", d.codex("hi"), d.codex("again"))
    calls = list[str]()

    def full(path: Path, text: str, **how: Any) -> None:
        calls.append(text)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        write_atomically(path, text, **how)

    monkeypatch.setattr(handle_record, "write_atomically", full)
    said = cli_env.type("start", "codex", "hello")
    assert (said.code, said.out) == (6, "hi\n")
    assert "could not be saved: " in said.err
    assert "No space left on device" in said.err
    record = cli_env.only_record()
    assert record["state"] == "running"
    assert f"to continue: turngate resume {record['handle']}" in said.err
    assert cli_env.type("resume", record["handle"], "go on").out == "again\n"


def test_a_missing_record_is_named(cli_env: CliEnv) -> None:
    """An unknown handle exits with 2, and says where it was searched and what to do."""
    said = cli_env.type("resume", "zzzzzzzz", "go on")
    assert said.code == 2
    assert f"no handle 'zzzzzzzz' in {cli_env.data / 'handles'}" in said.err
    assert "turngate handles" in said.err


@each("handle", ["", "../../x", "*", "abc/", "ABCDEFGH"])
def test_what_is_no_handle_is_none(cli_env: CliEnv, handle: str) -> None:
    """A handle is never treated as a pattern or a path."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin()
    before = cli_env.calls()
    assert cli_env.type("resume", handle, "go on").code == 2
    assert cli_env.calls() == before


@pytest.mark.parametrize("value", [None, ""], ids=["null", "empty"])
def test_a_conversation_without_session_is_not_resumed(cli_env: CliEnv, value: str | None) -> None:
    """A missing or empty session id exits with 2, and says where to look and what to do."""
    cli_env.engine("codex", d.codex("hi", session=None))
    handle = d.handle_in(cli_env.type("start", "codex", "hello").err)
    cli_env.change(handle, {"session": {"field": "thread_id" if value == "" else None, "value": value}})
    said = cli_env.type("resume", handle, "go on")
    assert said.code == 2
    assert "has no session to resume" in said.err
    assert "start again: turngate start codex" in said.err
    assert len(cli_env.calls()) == 1


def test_a_session_that_its_store_has_lost_is_not_resumed(cli_env: CliEnv) -> None:
    """An engine could start afresh under the same id, so that nobody would notice; the record stays as it was."""
    cli_env.engine("codex", d.codex("hi"))
    session = cli_env.keep_session()
    handle = cli_env.begin()
    assert cli_env.type("resume", handle, "go on").code == 0
    before = cli_env.record(handle)
    assert before["session"]["seen"] is True
    session.unlink()
    said = cli_env.type("resume", handle, "go on")
    assert said.code == 2
    assert f"{handle} can't be resumed: the engine's session store does not hold {d.SESSION}" in said.err
    assert f"{cli_env.root}/home/.codex/sessions/*" in said.err
    assert "restore it, or start again: turngate start codex" in said.err
    shutil.rmtree(cli_env.root / "home/.codex/sessions")
    assert "the session store of codex isn't there any more" in cli_env.type("resume", handle, "go on").err
    assert (cli_env.record(handle), len(cli_env.calls())) == (before, 2)


def test_a_session_that_was_never_in_the_store_is_resumed(cli_env: CliEnv) -> None:
    """The engine may keep it elsewhere, unless the turn that made it failed."""
    cli_env.engine("codex", d.codex("hi"), d.codex("hi"), [*d.codex()[:1], ["exit", 1]])
    (cli_env.root / "home/.codex/sessions").mkdir(parents=True)
    assert cli_env.type("resume", cli_env.begin(), "go on").code == 0
    failed = d.handle_in(cli_env.type("start", "codex", "hello").err)
    assert "does not hold" in cli_env.type("resume", failed, "go on").err


def test_an_engine_that_is_not_installed_is_named(cli_env: CliEnv) -> None:
    """Without the executable on PATH, both commands exit with 2 and say how to install it; the record stays."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    before = cli_env.record(handle)
    (cli_env.path / "codex").unlink()
    for words in (("resume", handle, "go on"), ("start", "codex", "hello")):
        said = cli_env.type(*words)
        assert said.code == 2
        assert "Codex CLI is not installed: no codex on PATH" in said.err
        assert "npm install --global @openai/codex" in said.err
    assert cli_env.only_record() == before


def test_an_engine_without_contract_is_named(cli_env: CliEnv) -> None:
    """An engine name without a contract exits with 2, and the known names are listed."""
    said = cli_env.type("start", "nosuch", "hello")
    assert (said.code, ", ".join(engine_names()) in said.err) == (2, True)


@pytest.mark.parametrize("which", ["runDirectory", "cwd"])
def test_a_directory_that_is_gone_is_named(cli_env: CliEnv, which: str) -> None:
    """If the run directory or the --cwd directory is missing, no engine runs."""
    cli_env.engine("codex", d.codex("hi"))
    (cli_env.root / "project").mkdir()
    handle = cli_env.begin("codex", "--cwd", "project", "hello")
    record = cli_env.record(handle)
    gone = Path(record["runDirectory"] if which == "runDirectory" else record["launch"]["cwd"])
    shutil.rmtree(gone)
    said = cli_env.type("resume", handle, "go on")
    assert said.code == 2
    assert f"directory {gone} of {handle} doesn't exist any more" in said.err
    assert "restore it, or start again" in said.err
    assert cli_env.record(handle) == record


def test_a_prefix_is_enough_and_an_ambiguous_one_lists_the_candidates(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A handle may be shortened to any unambiguous prefix; an ambiguous one lists the candidates."""
    cli_env.engine("codex", d.codex("hi"))
    drawn = iter(("aaaaaaaa", "aaaaaabb"))
    monkeypatch.setattr(data_dir, "new_handle", lambda: next(drawn))
    cli_env.begin()
    cli_env.begin()
    said = cli_env.type("resume", "aaaa", "go on")
    assert said.code == 2
    assert "'aaaa' is ambiguous: aaaaaaaa, aaaaaabb" in said.err
    assert cli_env.type("resume", "aaaaaab", "go on").code == 0
    assert cli_env.record("aaaaaabb")["turns"] == 2
