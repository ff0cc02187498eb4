"""Tests of whole commands with simulated engines: time limits, and lost sessions."""

import json
import shutil

import pytest

from tests.fakes.executables import simulated
from tests.reference.cli_env import CliEnv, handle_in
from turngate.contract import load

pytestmark = pytest.mark.processes


def finish(cli_env: CliEnv, *words: str) -> tuple[int, str]:
    """Run `turngate` in a separate process; return its exit code and what it printed on stderr."""
    process = cli_env.spawn(*words)
    _, err = process.communicate()
    return process.returncode, err


def test_a_turn_that_hangs_ends_at_its_time_limit(cli_env: CliEnv) -> None:
    """The conversation goes on afterwards."""
    simulated(load.contract("codex").at("0.169.0"), cli_env.path / "codex")
    code, err = finish(cli_env, "start", "codex", "do: say hi")
    assert code == 0, err
    handle = handle_in(err)
    code, err = finish(cli_env, "resume", "--timeout", "3", handle, "do: hang")
    assert (code, "still running at its time limit of 3 s" in err) == (124, True), err
    code, err = finish(cli_env, "resume", "--timeout", "60", handle, "do: say hi")
    assert code == 0, err


def test_a_session_that_is_gone_is_told_before_the_engine_runs(cli_env: CliEnv) -> None:
    """Without the check, this engine would start another session under the same id."""
    simulated(load.contract("kimi").at("1.44.0"), cli_env.path / "kimi")
    code, err = finish(cli_env, "start", "kimi", "do: say hi")
    assert code == 0, err
    (session,) = (cli_env.root / "home").rglob(cli_env.only_record()["session"]["value"])
    shutil.rmtree(session)
    code, err = finish(cli_env, "resume", handle_in(err), "do: say hi")
    assert (code, "the engine's session store does not hold" in err) == (2, True), err


def test_what_a_session_may_lack_after_a_kill_is_told(cli_env: CliEnv) -> None:
    """Claude Code writes a turn to its session only after it has printed the result."""
    simulated(load.contract("claude").at("2.1.330"), cli_env.path / "claude")
    code, err = finish(cli_env, "start", "claude", "do: say hi")
    assert (code, "may lack" in err) == (0, False), err
    handle, lacks = handle_in(err), "Claude Code was killed in this turn, so the session may lack this turn"
    code, err = finish(cli_env, "resume", "--timeout", "3", handle, "do: hang")
    assert (code, f"\n{lacks}\n" in err) == (124, True), err
    killed = cli_env.spawn("resume", "--timeout", "3", "--json", handle, "do: hang")
    assert json.loads(killed.communicate()[0])["reported"] == [{"kind": "session", "text": lacks}]
    cli_env.change(handle, {"state": "running"})  # as if turngate was killed
    code, err = finish(cli_env, "resume", "--timeout", "60", handle, "do: say hi")
    assert (code, f"in the last turn, {lacks}" in err) == (0, True), err
