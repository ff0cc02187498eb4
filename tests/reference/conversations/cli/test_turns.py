"""`--prompt-file` and `--message-file`: what no argument can hold, from a file or standard input."""

import subprocess
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from turngate_reference.conversations.cli.turns import MAX_BYTES

LONGEST = "\N{LATIN SMALL LETTER E WITH ACUTE}" * (MAX_BYTES // 2)
TEXTS = {
    "longest": LONGEST,
    "over one argument": "x" * 2**17,
    "option": "--yolo",
    "newlines": "\r\n a\r\n\n",
    "mark": "\ufeffa",
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A place for a text."""
    return tmp_path / "text"


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_engine_gets_what_the_file_holds(cli_env: CliEnv, file: Path, text: str) -> None:
    """Prompt and message arrive byte for byte, of any length up to the limit."""
    cli_env.engine("codex", d.codex("hi"))
    file.write_bytes(text.encode())
    handle = cli_env.begin("codex", "--prompt-file", str(file))
    assert cli_env.type("resume", "--message-file", str(file), handle).code == 0
    assert [call["stdin"] == text for call in cli_env.calls()] == [True, True]


def test_a_dash_is_standard_input(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` takes the text from standard input; as a prompt or a message it is a text as any other."""
    cli_env.engine("codex", d.codex("hi"))
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"piped")))
    handle = cli_env.begin("codex", "--prompt-file", "-")
    monkeypatch.setattr("sys.stdin", TextIOWrapper(BytesIO(b"piped too")))
    assert cli_env.type("resume", "--message-file", "-", handle).code == 0
    assert cli_env.type("resume", handle, "-").code == 0
    assert [call["stdin"] for call in cli_env.calls()] == ["piped", "piped too", "-"]


def test_options_of_the_engine_follow_a_dash_dash_as_ever(cli_env: CliEnv, file: Path) -> None:
    """With `--prompt-file` nothing but `--` stands before them."""
    cli_env.engine("codex", d.codex("hi"))
    file.write_text("hello")
    cli_env.begin("codex", "--prompt-file", str(file), "--", "--sandbox", "read-only")
    assert cli_env.only_record()["launch"]["args"] == ["--sandbox", "read-only"]
    assert cli_env.calls()[0]["stdin"] == "hello"


@pytest.mark.parametrize(
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
def test_a_text_is_given_once(cli_env: CliEnv, file: Path, words: tuple[str, ...]) -> None:
    """Two texts, or none, are a mistake, and nothing is run."""
    cli_env.engine("codex", d.codex("hi"))
    file.write_text("hello")
    names = {"FILE": str(file), "HANDLE": cli_env.begin()}
    assert cli_env.type(*(names.get(word, word) for word in words)).code == 2
    assert len(cli_env.calls()) == 1


@pytest.mark.parametrize(
    "data, why",
    [
        (LONGEST.encode() + b"x", f"longer than {MAX_BYTES} bytes"),
        (b"caf\xe9", "no UTF-8 from byte 4 on"),
        (b"\xed\xa0\x80", "no UTF-8 from byte 1 on"),
        (b"", "can't take this prompt as it is"),
    ],
    ids=["too long", "latin", "surrogate", "empty"],
)
def test_a_text_that_can_not_be_passed_on_is_refused(cli_env: CliEnv, file: Path, data: bytes, why: str) -> None:
    """What is too long, no text or empty is told, and nothing is run."""
    cli_env.engine("opencode", d.opencode("hi"))
    file.write_bytes(data)
    said = cli_env.type("start", "opencode", "--prompt-file", str(file))
    assert (said.code, cli_env.calls("opencode")) == (2, [])
    assert why in said.err


@pytest.mark.parametrize("name", [".", "missing", "missing\udcff"])
def test_a_file_that_can_not_be_read_is_named(cli_env: CliEnv, tmp_path: Path, name: str) -> None:
    """A directory or a missing file is told with its reason."""
    cli_env.engine("codex", d.codex("hi"))
    said = cli_env.type("start", "codex", "--prompt-file", str(tmp_path / name))
    assert said.code == 2
    assert "'--prompt-file': it can't be read" in said.err


def test_closed_standard_input_is_told(cli_env: CliEnv) -> None:
    """A command line without any standard input is no crash."""
    done = subprocess.run(
        ["sh", "-c", f"exec {d.TURNGATE} start codex --prompt-file - <&-"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "it can't be read" in done.stderr) == (2, True), done.stderr
