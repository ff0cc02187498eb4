"""COMMAND, run in a scenario."""

import json
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate import MachineError, Stop, load_contract
from turngate_probes.conform.catalogue import Scenario, scenarios
from turngate_probes.conform.judge import Evidence
from turngate_probes.conform.run import play
from turngate_probes.simulate.faults import Play

CODEX = load_contract("codex", "0.169.0")
SHOWS = "import json, os, sys; print(json.dumps([dict(os.environ), os.getcwd()]))"


def ran(tmp_path: Path, name: str, code: str, environ: dict[str, str]) -> Evidence:
    """Run Python code as COMMAND."""
    return played(tmp_path, scenarios()[name], code, environ)


def played(tmp_path: Path, scenario: Scenario, code: str, environ: dict[str, str]) -> Evidence:
    """Run Python code in a scenario."""
    return play(scenario, CODEX, (sys.executable, "-c", code), tmp_path, Stop(), environ)


def test_the_driver_gets_what_it_needs_and_no_secret(tmp_path: Path) -> None:
    """A fresh home, the engine first on PATH, the texts, and neither keys nor the user's own settings."""
    environ = {
        "PATH": "/usr/bin",
        "HOME": "/home/user",
        "OPENAI_API_KEY": "k",
        "CODEX_API_KEY": "k",
        "CODEX_HOME": "/home/user/.codex",
        "LANG": "C.UTF-8",
    }
    seen = ran(tmp_path, "workspace-with-spaces", SHOWS, environ)
    env, cwd = json.loads(seen.ran[0].stdout)
    assert {"CODEX_API_KEY", "CODEX_HOME"} & env.keys() == set()
    assert env["OPENAI_API_KEY"] in seen.keys
    assert env["PATH"].split(":") == [str(tmp_path / "bin"), "/usr/bin"]
    assert (env["HOME"], env["LANG"]) == (str(tmp_path / "home"), "C.UTF-8")
    assert (env["TURNGATE_ENGINE"], env["TURNGATE_ENGINE_CODEX"]) == ("codex", str(tmp_path / "bin" / "codex"))
    assert (env["TURNGATE_WORKSPACE"], cwd) == (seen.ran[0].conversation.workspace, str(Path.cwd()))
    assert seen.ran[0].conversation.prompts == (env["TURNGATE_PROMPT"], env["TURNGATE_REPLY"])
    assert Path(env["TURNGATE_PROMPT_FILE"]).read_text() == env["TURNGATE_PROMPT"]
    assert (seen.calls, "TURNGATE_REPLY_2" in env) == ((), False)


def test_what_the_driver_leaves_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with a key that every user can read, and files in the workspace with what the user said."""
    writes = (
        "import os; from pathlib import Path; home, work = os.environ['HOME'], os.environ['TURNGATE_WORKSPACE']\n"
        "key, said = os.environ['OPENAI_API_KEY'], os.environ['TURNGATE_REPLY']\n"
        "for path, text, mode in ((home + '/open', key, 0o644), (home + '/own', key, 0o600),\n"
        "    (work + '/said', said, 0o600), (home + '/log', said, 0o644)):\n"
        "    Path(path).write_text(text); Path(path).chmod(mode)"
    )
    temp = tmp_path / "tmp"
    temp.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temp))
    (temp / "old").write_text("before")
    writes += f"\nfor name in ('old', 'new'): Path({str(temp)!r}, name).write_text(key if name == 'new' else 'before')"
    seen = ran(tmp_path / "run", "two-turns", writes, {"PATH": "/bin"})
    assert seen.exposed == (str(tmp_path / "run/home/open"), str(temp / "new"))
    assert seen.left == (f"{seen.ran[0].conversation.workspace}/said",)


def test_a_long_prompt_is_only_in_a_file(tmp_path: Path) -> None:
    """No variable can hold it."""
    env, _ = json.loads(ran(tmp_path, "prompt-200-kb", SHOWS, {"PATH": "/bin"}).ran[0].stdout)
    assert "TURNGATE_PROMPT" not in env
    assert len(Path(env["TURNGATE_PROMPT_FILE"]).read_text()) > 200_000


def test_a_relative_folder_is_the_same_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine reports an absolute one."""
    monkeypatch.chdir(tmp_path)
    seen = ran(Path("kept"), "two-turns", SHOWS, {"PATH": "/bin"})
    assert seen.ran[0].conversation.workspace == str(tmp_path.resolve() / "kept" / "workspace")


def test_two_conversations_differ(tmp_path: Path) -> None:
    """They run at once, with their own texts, in one directory."""
    seen = ran(tmp_path, "two-conversations", SHOWS, {"PATH": "/bin"})
    (one, _), (other, _) = (json.loads(did.stdout) for did in seen.ran)
    assert one["TURNGATE_PROMPT"] != other["TURNGATE_PROMPT"]
    assert [one[name] == other[name] for name in ("HOME", "TURNGATE_WORKSPACE")] == [True, True]


def test_conversations_that_would_affect_each_other_have_their_own_directories(tmp_path: Path) -> None:
    """The contract says so; `message-lost` is about one session. What is left in either directory is found."""
    writes = "import os; open(os.environ['TURNGATE_WORKSPACE'] + '/said', 'w').write(os.environ['TURNGATE_REPLY'])"
    for version, apart in (("0.51.0", False), ("0.61.0", True)):
        contract, command = load_contract("gemini", version), (sys.executable, "-c", writes)
        assert any(one.clause == "session.at-once" for one in contract.deviations)
        seen = play(scenarios()["two-conversations"], contract, command, tmp_path / version, Stop(), {"PATH": "/bin"})
        directories = [did.conversation.workspace for did in seen.ran]
        assert len(set(directories)) == 1 + apart
        assert set(seen.left) == {f"{directory}/said" for directory in directories}


@pytest.mark.long
def test_what_is_left_running_is_ended_and_listed(tmp_path: Path) -> None:
    """It does not outlive the scenario."""
    code = "import subprocess; subprocess.Popen(['sleep', '1000'], start_new_session=True); raise SystemExit(3)"
    seen = ran(tmp_path / "1", "two-turns", code, {"PATH": "/usr/bin:/bin"})
    assert (seen.ran[0].exit_code, seen.ran[0].left) == (3, ("sleep 1000",))
    leaves = (
        "import subprocess; subprocess.run(['codex', 'exec', '--json', '--skip-git-repo-check', '--', 'first one'])"
    )
    scenario = replace(scenarios()["background-child"], plays=(Play(child="stays"),))
    seen = played(tmp_path / "2", scenario, leaves, {"PATH": "/usr/bin:/bin"})
    assert seen.ran[0].left == ("call 1 (codex exec --json --skip-git-repo-check -- 'first one')",)


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    """It can't be started."""
    with pytest.raises(MachineError, match="no-such-command"):
        play(scenarios()["two-turns"], CODEX, ("no-such-command",), tmp_path, Stop(), {"PATH": "/bin"})
