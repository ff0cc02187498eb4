"""What the operator must allow before the server or the terminal runs it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv, handle_in
from tests.reference.commanded import created, replied
from tests.reference.server_env import ASK, ServerEnv, final
from turngate.argv.trust import Trust
from turngate.contract.engine_contract import Deviation
from turngate.contract.launch import FileMark, Guards
from turngate_reference.conversations import conversation
from turngate_reference.engine import attempt
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.requests import ApiError
from turngate_reference.states import State

REQUEST = {"engine": "codex", "prompt": "paint it", "execution_mode": "interactive"}
MARK = FileMark(r"(?<!\S)@(?P<path>\S+)")


@pytest.fixture(name="changed")
def _changed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Fields of every engine's contract that a test replaces."""
    fields = dict[str, Any]()

    def changed(engine: InstalledEngine) -> InstalledEngine:
        return replace(engine, contract=replace(engine.contract, **fields))

    find, find_engine = Engines.find, attempt.find_engine
    monkeypatch.setattr(Engines, "find", lambda *args: changed(find(*args)))
    monkeypatch.setattr(conversation, "find_engine", lambda *args: changed(find_engine(*args)))
    return fields


def unsafe(clause: str) -> tuple[Deviation, ...]:
    """Return the declaration that an engine breaks a clause."""
    return (Deviation(clause, "any", "run it in a container"),)


@pytest.mark.parametrize("clause", ["interactive.settings-cannot-widen", "sticky.settings-cannot-widen"])
def test_an_unsafe_engine_takes_no_run_unless_it_is_allowed(
    closed_server_env: ServerEnv, changed: dict[str, Any], clause: str
) -> None:
    """The problem names the promise and the option. An allowed run says so, and so does its record."""
    changed["deviations"] = unsafe(clause)
    closed_server_env.cli_env.engine("codex", d.codex(final()))
    sticky = {"interactive_profile": "sticky_process"} if clause.startswith("sticky") else {}
    with closed_server_env.opened() as server:
        with pytest.raises(ApiError, match=r"ENGINE_UNSAFE.*--allow-unsafe codex") as raised:
            created(server, REQUEST | sticky)
        assert raised.value.members == {"clause": clause}
    with closed_server_env.opened(trust=Trust(frozenset({"codex"}))) as server:
        run_id = created(server, REQUEST).run_id
        assert closed_server_env.run(run_id).launch.unsafe_allowed is True
        assert closed_server_env.cli_env.record(run_id[-8:])["launch"]["unsafe_allowed"] is True


def test_a_strangers_workspace_takes_no_run_but_the_runs_own_does(
    closed_server_env: ServerEnv, changed: dict[str, Any], tmp_path: Path
) -> None:
    """Without a workspace nobody put a file anywhere; a trusted workspace is not guarded, and the run says so."""
    changed |= {"deviations": unsafe("workspace.cannot-redirect"), "guards": Guards(options=("--color", "never"))}
    closed_server_env.cli_env.engine("codex", d.codex(final()))
    (tmp_path / "theirs").mkdir()
    there = REQUEST | {"execution_mode": "auto", "workspace": "theirs"}
    with closed_server_env.opened(workspace_root=tmp_path) as server:
        with pytest.raises(ApiError, match=r"ENGINE_UNSAFE.*--trust-workspace"):
            created(server, there)
        own = created(server, REQUEST | {"execution_mode": "auto"}).run_id
        closed_server_env.wait(own, State.SUCCEEDED)
    with closed_server_env.opened(workspace_root=tmp_path, trust=Trust(workspaces=(tmp_path / "theirs",))) as server:
        run_id = created(server, there).run_id
        closed_server_env.wait(run_id, State.SUCCEEDED)
        assert closed_server_env.run(run_id).launch.trusted_workspace is True
    assert closed_server_env.cli_env.record(run_id[-8:])["launch"]["trusted_workspace"] is True
    assert ["--color" in call["argv"] for call in closed_server_env.cli_env.calls()] == [True, False]


def test_a_waiting_run_is_not_continued_once_its_engine_is_no_longer_allowed(
    closed_server_env: ServerEnv, changed: dict[str, Any]
) -> None:
    """The reply is rejected, and the run still waits."""
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final()))
    with closed_server_env.opened():
        run_id, question = closed_server_env.ask()
        changed["deviations"] = unsafe("interactive.settings-cannot-widen")
        reply = {"interaction_id": question.interaction_id, "response": "red"}
        with pytest.raises(ApiError, match="ENGINE_UNSAFE"):
            replied(closed_server_env.server, run_id, reply)
        assert closed_server_env.run(run_id).state is State.WAITING_USER


def test_a_prompt_and_a_reply_name_no_file_elsewhere_unless_the_caller_allows_it(
    closed_server_env: ServerEnv, changed: dict[str, Any]
) -> None:
    """Both are rejected before anything changes, and accepted with the caller's explicit word."""
    changed["file_marks"] = (MARK,)
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final()))
    marked = REQUEST | {"prompt": "read @~/.ssh/id_rsa"}
    with closed_server_env.opened() as server:
        with pytest.raises(ApiError, match=r"PROMPT_REFUSED.*@~/\.ssh/id_rsa"):
            created(server, marked)
        run_id = created(server, marked | {"allow_file_marks": True}).run_id
        question = closed_server_env.question(run_id)
        reply = {"interaction_id": question.interaction_id, "response": "see @/etc/passwd"}
        with pytest.raises(ApiError, match=r"PROMPT_REFUSED.*@/etc/passwd"):
            replied(server, run_id, reply)
        replied(server, run_id, reply | {"allow_file_marks": True})
        closed_server_env.wait(run_id, State.SUCCEEDED)


def test_the_terminal_asks_for_the_same(cli_env: CliEnv, changed: dict[str, Any]) -> None:
    """`start` and `resume` are refused with exit code 2, and run with the option, which the record keeps."""
    changed["deviations"] = unsafe("interactive.settings-cannot-widen")
    cli_env.engine("codex", d.codex(ASK), d.codex(final()))
    refused = cli_env.type("start", "codex", "hello")
    assert (refused.code, "--allow-unsafe codex" in refused.err) == (2, True)
    started = cli_env.type("start", "codex", "--allow-unsafe", "codex", "hello")
    assert (started.code, "whatever its contract says" in started.err) == (0, True)
    handle = handle_in(started.err)
    assert cli_env.record(handle)["launch"]["unsafe_allowed"] is True
    assert cli_env.type("resume", handle, "red").code == 2
    assert cli_env.type("resume", "--allow-unsafe", "codex", handle, "red").code == 0
    assert cli_env.type("start", "codex", "--allow-unsafe", "codexx", "hello").code == 2


RULE = 'prefix_rule(pattern=["touch"], decision="allow")'
TOOL = '[mcp_servers.files.tools.write]\napproval_mode = "approve"\n'


def write_setting(home: Path, name: str, content: str) -> Path:
    """Give the user's Codex a file."""
    file = home / ".codex" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return file


def test_a_setting_that_nothing_outranks_takes_no_run(closed_server_env: ServerEnv) -> None:
    """It is found before a run is created; a rule matters to a sticky process only, and nothing to mode auto."""
    home = closed_server_env.cli_env.root / "home"
    closed_server_env.cli_env.engine("codex", d.codex(final()))
    sticky = REQUEST | {"interactive_profile": "sticky_process"}
    rule = write_setting(home, "rules/default.rules", RULE)
    with closed_server_env.opened() as server:
        with pytest.raises(ApiError, match=rf"ENGINE_UNSAFE.*{rule}.*--allow-unsafe codex") as raised:
            created(server, sticky)
        assert raised.value.members == {"clause": "sticky.settings-cannot-widen"}
        created(server, REQUEST)
        write_setting(home, "config.toml", TOOL)
        with pytest.raises(ApiError, match=r"ENGINE_UNSAFE.*config\.toml"):
            created(server, REQUEST)
        created(server, REQUEST | {"execution_mode": "auto"})


def test_a_setting_that_came_while_a_run_waited_is_found(closed_server_env: ServerEnv) -> None:
    """The reply is rejected, and the run still waits; without the setting it goes on."""
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final()))
    with closed_server_env.opened() as server:
        run_id, question = closed_server_env.ask()
        setting = write_setting(closed_server_env.cli_env.root / "home", "config.toml", TOOL)
        reply = {"interaction_id": question.interaction_id, "response": "red"}
        with pytest.raises(ApiError, match=r"ENGINE_UNSAFE.*approved-mcp-tools"):
            replied(server, run_id, reply)
        assert closed_server_env.run(run_id).state is State.WAITING_USER
        setting.unlink()
        replied(server, run_id, reply)
        closed_server_env.wait(run_id, State.SUCCEEDED)


def test_the_terminal_finds_the_same_settings(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`start` and `resume` are refused with exit code 2, and name the file."""
    monkeypatch.setenv("HOME", str(tmp_path))
    cli_env.engine("codex", d.codex(ASK), d.codex(final()))
    handle = cli_env.begin("codex")
    file = write_setting(tmp_path, "config.toml", TOOL)
    for words in (("start", "codex", "hello"), ("resume", handle, "red")):
        refused = cli_env.type(*words)
        assert (refused.code, str(file) in refused.err, "--allow-unsafe codex" in refused.err) == (2, True, True)
    assert cli_env.type("resume", "--allow-unsafe", "codex", handle, "red").code == 0
