"""Tests of the command lines of `turngate start` and `resume`, text files, and exit codes."""

import json
import signal
import subprocess
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from tests.tables import each
from turngate.contract import load
from turngate.decoding import convert
from turngate_reference.conversations.cli.turns import MAX_BYTES
from turngate_reference.handle_record import LaunchSettings
from turngate_reference.server.requests import _DEFAULTS

LONGEST = "\N{GRINNING FACE}" * (MAX_BYTES // 4)  # of as many characters as Codex takes

TEXTS = {
    "longest": LONGEST,
    "over one argument": "x" * 2**17,
    "option": "--yolo",
    "newlines": "\r\n a\r\n\n",
    "mark": "\ufeffa",
}


@pytest.fixture(name="begun")
def _begun(cli_env: CliEnv) -> str:
    """Begin a conversation; return its handle."""
    cli_env.engine("codex", d.codex("hi"))
    return cli_env.begin()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a text file."""
    return tmp_path / "text"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_engine_gets_what_the_file_holds(cli_env: CliEnv, file: Path, text: str) -> None:
    """Prompt and message from a file reach the engine byte for byte, up to the size limit."""
    cli_env.engine("codex", d.codex("hi"))
    file.write_bytes(text.encode())
    handle = cli_env.begin("codex", "--prompt-file", str(file))
    assert cli_env.type("resume", "--message-file", str(file), handle).code == 0
    assert [call["stdin"] == text for call in cli_env.calls()] == [True, True]


def test_a_dash_is_standard_input(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file name of `-` reads the prompt or message from standard input."""
    cli_env.engine("codex", d.codex("hi"))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"piped")))
    handle = cli_env.begin("codex", "--prompt-file", "-")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"piped too")))
    assert cli_env.type("resume", "--message-file", "-", handle).code == 0
    assert cli_env.type("resume", handle, "-").code == 0
    assert [call["stdin"] for call in cli_env.calls()] == ["piped", "piped too", "-"]


def test_options_of_the_engine_follow_a_dash_dash_as_ever(cli_env: CliEnv, file: Path) -> None:
    """With `--prompt-file`, only `--` comes before the engine's options."""
    cli_env.engine("codex", d.codex("hi"))
    file.write_text("hello")
    cli_env.begin("codex", "--prompt-file", str(file), "--", "--sandbox", "read-only")
    assert cli_env.only_record()["launch"]["args"] == ["--sandbox", "read-only"]
    assert cli_env.calls()[0]["stdin"] == "hello"


@each(
    "words",
    [
        ("start", "codex", "--prompt-file", "FILE", "hello"),
        ("start", "codex", "--prompt-file", "FILE", "--", "hello"),
        ("start", "codex", "--prompt-file", "FILE", "--", "-hello"),
        ("start", "codex", "--prompt-file", "FILE", ""),
        ("start", "codex", "--prompt-file", "FILE", "hello", "--", "--sandbox", "read-only"),
        ("start", "codex"),
        ("start", "codex", "--"),
        ("start", "codex", "--prompt-file"),
        ("resume", "--message-file", "FILE", "HANDLE", "hello"),
        ("resume", "--message-file", "FILE", "HANDLE", ""),
        ("resume", "HANDLE", "--message-file", "FILE"),
        ("resume", "HANDLE"),
        ("resume", "--message-file", "FILE"),
    ],
)
def test_a_text_is_given_once(cli_env: CliEnv, begun: str, file: Path, words: tuple[str, ...]) -> None:
    """Giving two texts, or none, is an error, and no engine runs."""
    file.write_text("hello")
    names = {"FILE": str(file), "HANDLE": begun}
    assert cli_env.type(*(names.get(word, word) for word in words)).code == 2
    assert len(cli_env.calls()) == 1


@each(
    "data, why",
    [
        (LONGEST.encode() + b"x", f"longer than {MAX_BYTES} bytes"),
        (b"caf\xe9", "valid UTF-8 from byte 4 on"),
        (b"\xed\xa0\x80", "valid UTF-8 from byte 1 on"),
        (b"", "the prompt is empty"),
        (b" \n", "the prompt is empty"),
    ],
    shown=lambda value: value[:40],
)
def test_a_text_that_can_not_be_passed_on_is_refused(cli_env: CliEnv, file: Path, data: bytes, why: str) -> None:
    """A file that is too long, empty or not text is an error, and no engine runs."""
    cli_env.engine("opencode", d.opencode("hi"))
    file.write_bytes(data)
    said = cli_env.type("start", "opencode", "--prompt-file", str(file))
    assert (said.code, cli_env.calls("opencode")) == (2, [])
    assert why in said.err


@each("message", ["", " ", "\n\t"])
def test_an_empty_message_is_refused(cli_env: CliEnv, begun: str, message: str) -> None:
    """A message or a prompt without a word is refused for every engine, and no engine runs."""
    for what, *words in (
        ("message", "resume", begun, message),
        ("message", "resume", begun, "--", message),
        ("prompt", "start", "codex", message),
    ):
        said = cli_env.type(*words)
        assert (said.code, len(cli_env.calls())) == (2, 1), words
        assert f"the {what} is empty" in said.err
    assert cli_env.record(begun)["turns"] == 1


@each("name", [".", "missing", "missing\udcff"])
def test_a_file_that_can_not_be_read_is_named(cli_env: CliEnv, tmp_path: Path, name: str) -> None:
    """A directory or a missing file is an error that says why."""
    cli_env.engine("codex", d.codex("hi"))
    said = cli_env.type("start", "codex", "--prompt-file", str(tmp_path / name))
    assert said.code == 2
    assert "'--prompt-file': it can't be read" in said.err


def test_closed_standard_input_is_told(cli_env: CliEnv) -> None:
    """Closed standard input is reported as an error, without a crash."""
    done = subprocess.run(
        ["sh", "-c", f"exec {d.TURNGATE} start codex --prompt-file - <&-"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "it can't be read" in done.stderr) == (2, True), done.stderr


def test_a_prompt_may_look_like_an_option(cli_env: CliEnv) -> None:
    """After `--`, text that looks like an option is a prompt; before it, it is rejected as an unknown option."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin("codex", "--", "--yolo")
    assert cli_env.calls()[0]["stdin"] == "--yolo"
    said = cli_env.type("start", "codex", "--yolo")
    assert (said.code, "starts with a dash after `--`" in said.err, len(cli_env.calls())) == (2, True, 1)


def test_engine_options_may_follow_a_prompt_that_looks_like_one(cli_env: CliEnv) -> None:
    """A second `--` starts the engine's options, as the help says."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin("codex", "--", "-v or -q?", "--", "--add-dir", "docs")
    (call,) = cli_env.calls()
    assert (call["stdin"], call["argv"][-3:]) == ("-v or -q?", ["--add-dir", "docs", "-"])
    assert '-- "-v or -q?" -- --add-dir docs' in cli_env.type("start", "--help").out


@each(
    "words, said",
    [
        ((), "ENGINE must come first"),
        (("codex",), "the prompt is missing"),
        (("--mode", "auto", "codex", "hi"), "ENGINE must come first"),
        (("codex", "two", "words"), "the prompt must be one argument: quote it"),
        (("hello",), "no contract for engine 'hello'"),
        (("codex", "hi", "--model", "m"), "'--model' comes after the prompt: put OPTIONS of turngate before it"),
    ],
)
def test_a_command_line_that_is_not_understood_is_refused(cli_env: CliEnv, words: tuple[str, ...], said: str) -> None:
    """Without an engine or a prompt, or with an unquoted prompt, no engine runs, and the message says what is wrong."""
    cli_env.engine("codex", d.codex("hi"))
    refused = cli_env.type("start", *words)
    assert (refused.code, said in refused.err) == (2, True), refused.err
    assert cli_env.calls() == []


def test_mode_interactive_is_the_default_and_passes_no_auto_flag(cli_env: CliEnv) -> None:
    """Without --mode, the engine gets no option that lets it act without asking."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin()
    assert cli_env.calls()[0]["argv"] == ["exec", "--json", "--skip-git-repo-check", *d.PINNED["codex"], "-"]
    assert cli_env.only_record()["launch"]["mode"] == "interactive"


def test_mode_auto_passes_the_auto_flags(cli_env: CliEnv) -> None:
    """Mode auto passes the auto-approve flags on start and on every resume."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin("codex", "--mode", "auto", "hello")
    assert cli_env.type("resume", handle, "go on").code == 0
    assert all("--sandbox workspace-write" in " ".join(call["argv"]) for call in cli_env.calls())


def test_json_is_the_record_and_the_answer(cli_env: CliEnv) -> None:
    """With --json, stdout holds only the valid record with the answer, and stderr only diagnostics."""
    cli_env.engine("codex", d.codex("é\x1b[1m\nhi"))
    said = cli_env.type("start", "codex", "--json", "hello")
    record = json.loads(said.out)
    assert (record.pop("answer"), record.pop("failures"), record.pop("reported")) == ("é\x1b[1m\nhi", [], [])
    jsonschema.validate(record, load.schema("handle-record"))
    assert record == cli_env.only_record()
    assert said.err == ""


def test_json_has_what_the_engine_reports_beside_its_answer(cli_env: CliEnv) -> None:
    """With --json, an error after which the turn went on stands beside the record, which is saved without it."""
    error = {"type": "item.completed", "item": {"type": "error", "message": "no metadata"}}
    cli_env.engine("codex", d.codex("hi", more=[["stdout", json.dumps(error) + "\n"]]))
    printed = json.loads(cli_env.type("start", "codex", "--json", "hello").out)
    reported = [{"kind": "error", "text": "no metadata"}]
    assert (printed.pop("answer"), printed.pop("failures"), printed.pop("reported")) == ("hi", [], reported)
    assert printed == cli_env.only_record()


@each("code", [0, 1, 2, 7, 42, 55])
def test_the_exit_code_of_the_engine_is_ours(cli_env: CliEnv, code: int) -> None:
    """`start` and `resume` exit with the engine's exit code."""
    cli_env.engine("codex", [*d.codex("hi"), ["exit", code]])
    cli_env.keep_session()
    said = cli_env.type("start", "codex", "hello")
    assert said.code == code
    assert cli_env.type("resume", d.handle_in(said.err), "go on").code == code


def test_an_engine_that_a_signal_ended_gives_128_and_its_number(cli_env: CliEnv) -> None:
    """As in a shell, the exit code is 128 plus the signal number, and the signal is named."""
    cli_env.engine("codex", [*d.codex("hi"), ["signal", signal.SIGKILL]])
    said = cli_env.type("start", "codex", "hello")
    assert said.code == 128 + signal.SIGKILL
    assert "codex was killed by signal 9" in said.err


@pytest.mark.long
def test_a_turn_has_a_time_limit(cli_env: CliEnv) -> None:
    """That of the start holds for every turn until a resume names another; the exit code is that of `timeout`."""
    cli_env.engine("codex", d.codex(more=[["hang"]]), d.codex("hi"), d.codex(more=[["hang"]]))
    cli_env.keep_session()
    said = cli_env.type("start", "codex", "--timeout", "1", "hello")
    assert (said.code, "codex was still running at its time limit of 1 s, and was stopped" in said.err) == (124, True)
    assert "resume with --timeout SECONDS" in said.err
    record = cli_env.only_record()
    assert (record["state"], record["launch"]["session_timeout_sec"]) == ("failed", 1)
    assert cli_env.type("resume", "--timeout", "60", record["handle"], "go on").code == 0
    assert cli_env.record(record["handle"])["launch"]["session_timeout_sec"] == 60
    assert cli_env.type("resume", "--timeout", "1", record["handle"], "go on").code == 124


def test_without_an_option_the_time_limit_is_that_of_the_server(cli_env: CliEnv) -> None:
    """A record of an earlier turngate has none, and gets it too."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.begin()
    assert cli_env.only_record()["launch"]["session_timeout_sec"] == _DEFAULTS["session_timeout_sec"]
    old: dict[str, Any] = {"args": [], "mode": "auto", "model": None, "cwd": "/"}
    assert convert(old, LaunchSettings, dec_hook=lambda kind, text: kind(text)).session_timeout_sec == 1200


@pytest.mark.parametrize(
    "words,message",
    [(("--", "paint", "it"), "paint it"), (("--", "--", "x"), "-- x"), (("-- x",), "-- x")],
)
def test_everything_after_two_dashes_is_the_message(cli_env: CliEnv, words: tuple[str, ...], message: str) -> None:
    """Words after `--` are joined by spaces; a second `--` is part of the message."""
    cli_env.engine("codex", d.codex("hi"))
    assert cli_env.type("resume", cli_env.begin(), *words).code == 0
    assert cli_env.calls()[1]["stdin"] == message


@each(
    "words, said",
    [
        ((), "MESSAGE is missing"),
        (("--",), "MESSAGE is missing"),
        (("paint", "it"), "MESSAGE must be one argument"),
        (("paint", "--", "it"), "MESSAGE must be one argument"),
        (("--timeout", "5", "x"), "put OPTIONS before HANDLE"),
    ],
)
def test_a_message_that_is_missing_or_not_quoted_is_refused(
    cli_env: CliEnv, begun: str, words: tuple[str, ...], said: str
) -> None:
    """Without a message, or with two words that don't follow `--`, no engine runs."""
    refused = cli_env.type("resume", begun, *words)
    assert (refused.code, said in refused.err, len(cli_env.calls())) == (2, True, 1), refused.err


def test_a_message_that_is_no_text_is_refused(cli_env: CliEnv) -> None:
    """A message that isn't valid UTF-8 is rejected, since it can't reach the engine unchanged."""
    cli_env.engine("codex", d.codex("hi"))
    said = cli_env.type("resume", cli_env.begin(), "\udcff")
    assert (said.code, "not valid Unicode" in said.err) == (2, True)


def test_equal_session_ids_of_two_homes_stay_apart(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two conversations with the same session id, each is continued in the home in which it began."""
    cli_env.engine("codex", d.codex("hi", more=[["env", "HOME"]]))
    handles = {}
    for home in ("one", "two"):
        monkeypatch.setenv("HOME", str(cli_env.root / home))
        handles[home] = cli_env.begin()
    ids = {cli_env.record(handle)["session"]["value"] for handle in handles.values()}
    assert ids == {d.SESSION}
    for home, handle in handles.items():
        assert cli_env.type("resume", handle, "go on").code == 0
        errors = Path(cli_env.record(handle)["runDirectory"]).rglob("stderr")
        assert {path.read_text() for path in errors} == {f"HOME={cli_env.root / home}\n"}


def test_json_before_the_handle_is_ours_and_after_it_the_message(cli_env: CliEnv) -> None:
    """Options of turngate must come before the handle."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    printed = json.loads(cli_env.type("resume", "--json", handle, "--json").out)
    assert printed == {**cli_env.record(handle), "answer": "hi", "failures": [], "reported": []}
    assert cli_env.calls()[1]["stdin"] == "--json"


@pytest.mark.long
@pytest.mark.parametrize("allowed", range(6, 14))
def test_too_few_files_are_an_error_of_turngate(cli_env: CliEnv, allowed: int) -> None:
    """Whichever step finds no file descriptor, the error names the cause, and the conversation can go on later."""
    cli_env.engine("codex", d.codex("hi"), d.codex("again"))
    handle = cli_env.begin()
    script = f"ulimit -n {allowed} && exec {d.TURNGATE} resume {handle} text"
    done = subprocess.run(("sh", "-c", script), capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: ")
    assert "Too many open files" in done.stderr.splitlines()[0]
    assert len(done.stderr.splitlines()) <= 2
    assert cli_env.type("resume", handle, "text").code == 0
