"""Tests of what a terminal shows while an engine gives no text."""

import threading

import pytest

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from turngate.contract.launch import Stream
from turngate_reference.conversations.cli import silence
from turngate_reference.conversations.cli.silence import Silence

RETRY = '{"type":"error","message":"Reconnecting... %s/5 (no \x1b[31mnetwork)"}\n'


def test_a_silent_engine_is_waited_for_aloud(capsys: pytest.CaptureFixture[str]) -> None:
    """Silence is told once, then only what the engine prints anew, as one safe line."""
    quiet = Silence()
    for printed in (b"", b"", (RETRY % 1).encode(), b"", (RETRY % 2 + RETRY % 3).encode()):
        quiet.output("stdout", printed)
        quiet.look()
    first, second, second_last, third, third_last = capsys.readouterr().err.splitlines()
    assert first == "the engine has given no text for 30 s; waiting (Ctrl-C ends the turn)"
    assert (second, third) == (first.replace("30", "90"), first.replace("30", "150"))
    assert second_last == 'it printed last: {"type":"error","message":"Reconnecting... 1/5 (no network)"}'
    assert third_last == second_last.replace("1/5", "3/5")


def test_a_text_breaks_the_silence(capsys: pytest.CaptureFixture[str]) -> None:
    """After a text, the next line comes at the earliest after a whole limit, and doesn't repeat that text."""
    quiet = Silence()
    quiet.text()
    quiet.output("stdout", b"the text")
    quiet.look()
    assert capsys.readouterr().err == ""
    quiet.look()
    assert capsys.readouterr().err == "the engine has given no text for 30 s; waiting (Ctrl-C ends the turn)\n"


def test_it_looks_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look comes after each limit."""
    monkeypatch.setattr(silence, "LIMIT", 0.0)
    looked = threading.Semaphore(0)
    monkeypatch.setattr(Silence, "look", lambda _: looked.release())
    with Silence().watched():
        assert looked.acquire(timeout=PATIENCE)
        assert looked.acquire(timeout=PATIENCE)


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_what_the_engine_prints_is_watched(
    cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    """The output of `start` and `resume` on both streams is watched, and stdout has none of it."""

    class Impatient(Silence):
        """Looks at each output."""

        def output(self, stream: Stream, chunk: bytes) -> None:
            """Look at once."""
            super().output(stream, chunk)
            self.look()

    monkeypatch.setattr("turngate_reference.conversations.cli.turns.Silence", Impatient)
    cli_env.engine("codex", [["stderr", "retrying 3/5\n"], *d.codex("hi")])
    started = cli_env.type("start", "codex", *more, "hello")
    resumed = cli_env.type("resume", *more, cli_env.only_record()["handle"], "go on")
    for said in (started, resumed):
        assert (said.code, "it printed last: retrying 3/5\n" in said.err) == (0, True), said
        assert "retrying" not in said.out
