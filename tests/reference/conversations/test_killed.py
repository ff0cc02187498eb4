"""A first turn whose turngate was killed: the record has no session id yet, but the recorded output may have it."""

from pathlib import Path

import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv


@pytest.fixture(name="handle")
def _handle(cli_env: CliEnv) -> str:
    """Provide a conversation of which nothing was recorded but the output of its first turn."""
    cli_env.engine("codex", d.codex("hi"), d.codex("Next."))
    cli_env.keep_session()
    handle = cli_env.begin()
    cli_env.change(handle, {"state": "running", "session": {"field": None, "value": None}})
    return handle


def output(cli_env: CliEnv, handle: str) -> Path:
    """Return the recorded output of the first turn."""
    return Path(cli_env.record(handle)["runDirectory"], ".turngate/attempt-001/stdout")


def test_the_session_of_a_killed_first_turn_is_resumed(cli_env: CliEnv, handle: str) -> None:
    """The id that the engine had printed is used, even if the turn was cut short after it."""
    recorded = output(cli_env, handle)
    recorded.write_bytes(recorded.read_bytes().splitlines(keepends=True)[0])
    said = cli_env.type("resume", handle, "go on")
    assert (said.code, said.out) == (0, "Next.\n")
    assert d.SESSION in cli_env.calls()[1]["argv"]
    record = cli_env.record(handle)
    assert record["session"] == {"field": "thread_id", "value": d.SESSION, "seen": None}
    assert (record["state"], record["turns"]) == ("succeeded", 2)


@pytest.mark.parametrize("removed", [False, True])
def test_a_first_turn_that_was_killed_too_early_says_so(cli_env: CliEnv, handle: str, *, removed: bool) -> None:
    """Without an id in the output, or without output, the resume says what happened and what to do."""
    recorded = output(cli_env, handle)
    recorded.write_bytes(b"")
    if removed:
        recorded.unlink()
        recorded.with_name("stderr").unlink()
    said = cli_env.type("resume", "--data-dir", str(cli_env.data), handle, "go on")
    assert said.code == 2
    assert f"{handle} has no session to resume: turngate was killed before the engine reported a session id" in said.err
    assert f"start again: turngate start codex --data-dir {cli_env.data} …" in said.err
    assert len(cli_env.calls()) == 1
