"""An upgrade of turngate keeps the runs: the data of an earlier one is opened, listed, answered and continued."""

import json
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.probes.simulate.played import install_quick
from tests.reference import saved_data
from tests.reference.cli_env import CliEnv
from tests.reference.saved_data import later_schema, unpack, version
from tests.reference.server.test_cli import ServeProcess
from tests.reference.server_env import server_env
from turngate.contract import load
from turngate_reference.server.store import runs, upgrade
from turngate_reference.server.store.runs import Run
from turngate_reference.states import State

pytestmark = [pytest.mark.long, pytest.mark.nightly]


@pytest.fixture(name="saved")
def _saved(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> CliEnv:
    """Provide the data of a killed server with schema 3, and the simulated engines that it used."""
    unpack(cli_env.root)
    install_quick(load.contract("codex").at("0.169.0"), cli_env.path)
    monkeypatch.setenv("HOME", str(cli_env.root / "home"))
    return cli_env


@pytest.fixture(name="later", params=["this-schema", "later-schema"])
def _later(saved: CliEnv, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Leave turngate as it is, or make it one with a later schema; return the version of the schema."""
    if request.param == "later-schema":
        monkeypatch.setattr(upgrade, "_FOLDER", later_schema(saved.root / "later"))
    return max(upgrade.migrations())


def test_runs_in_every_state_survive_an_upgrade(saved: CliEnv, later: int) -> None:
    """What waits is answered, what was queued runs, what was running has failed, and what had ended stays so."""
    server = server_env(saved)

    def run(handle: str) -> Run:
        (run_id,) = (row.run_id for row in runs.summaries(server.server.store) if row.handle == handle)
        return server.run(run_id)

    with server.opened():
        assert version(saved.data / "turngate.db") == later
        waiting = run(saved_data.WAITING).run_id
        server.reply(waiting, server.question(waiting), "blue")
        assert server.wait(waiting, State.SUCCEEDED).turn_index == 2
        # it has run: the simulated agent asks, though it may not in mode auto
        assert server.failed(run(saved_data.QUEUED).run_id).code == "ASK_USER_IN_AUTO"
        # turns that ran, and processes that waited, ended with their server
        for handle, code in (
            (saved_data.RUNNING, "ORCHESTRATOR_RESTART_INTERRUPTED"),
            (saved_data.STICKY, "INTERACTION_PROCESS_LOST"),
            (saved_data.FAILED, "ENGINE_FAILED"),
        ):
            assert server.failed(run(handle).run_id).code == code
        ended = {handle: run(handle) for handle in (saved_data.SUCCEEDED, saved_data.CANCELED)}
        assert [(row.state, row.turn_index) for row in ended.values()] == [(State.SUCCEEDED, 2), (State.CANCELED, 1)]
        assert ended[saved_data.SUCCEEDED].final_data
        assert run(saved_data.WAITING).launch.output_schema == {"type": "object"}
        assert server.question(run(saved_data.ALSO_WAITING).run_id).question.options == ("red", "blue")
        # an answer to a request with a key is kept, too
        key = server.server.store.read("SELECT scope, key FROM idempotency")
        assert [(row["key"], run(saved_data.SUCCEEDED).run_id in row["scope"]) for row in key] == [("key-1", True)]
    assert saved.record(saved_data.WAITING)["state"] == "succeeded"


def test_conversations_continue_after_an_upgrade(saved: CliEnv, later: int) -> None:
    """Without a server, `turngate handles` lists all, and `resume` continues a conversation and a run that waits."""
    said = saved.type("handles", "--json")
    assert said.code == 0, said.err
    states = {record["handle"]: record["state"] for record in json.loads(said.out)}
    assert states == {
        saved_data.QUEUED: "queued",
        saved_data.RUNNING: "running",
        saved_data.STICKY: "waiting_user",
        saved_data.WAITING: "waiting_user",
        saved_data.ALSO_WAITING: "waiting_user",
        saved_data.SUCCEEDED: "succeeded",
        saved_data.FAILED: "failed",
        saved_data.CANCELED: "canceled",
        saved_data.STARTED: "waiting_user",
    }
    assert version(saved.data / "turngate.db") == later
    for handle in (saved_data.STARTED, saved_data.WAITING, saved_data.SUCCEEDED):
        said = saved.type("resume", handle, "blue")
        assert said.code == 0, said.err
    assert saved.record(saved_data.STARTED)["turns"] == 2
    said = saved.type("start", "codex", "Which colour should the door have?")
    assert said.code == 0, said.err


@pytest.mark.long
def test_a_waiting_run_is_answered_from_outside_after_an_upgrade(saved: CliEnv) -> None:
    """`turngate serve` opens the data, `turngate handles` lists who waits, and `turngate resume` replies."""
    serving = ServeProcess(saved)
    try:
        waiting = json.loads(saved.type("handles", "--waiting", "--json").out)
        asked = {record["handle"] for record in waiting if record.get("pending", {}).get("prompt") == "Which colour?"}
        assert asked == {saved_data.WAITING, saved_data.ALSO_WAITING}
        assert {record["handle"] for record in waiting} == {*asked, saved_data.STARTED}
        said = saved.type("resume", saved_data.WAITING, "blue")
        assert said.code == 0, said.err
    finally:
        code, _ = serving.end(signal.SIGTERM)
    assert code == 0


def test_the_documented_way_back_works(saved: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an upgrade and the commands in docs/handles.md, the earlier turngate has the waiting run again."""
    with monkeypatch.context() as upgraded:
        upgraded.setattr(upgrade, "_FOLDER", later_schema(saved.root / "later"))
        assert saved.type("resume", saved_data.WAITING, "blue").code == 0
    assert "a newer turngate wrote the database" in saved.type("resume", saved_data.ALSO_WAITING, "blue").err
    page = (Path(__file__).parents[2] / "docs" / "handles.md").read_text("utf-8")
    (commands,) = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    script = commands.replace("~/.local/share/turngate", shlex.quote(str(saved.data)))
    subprocess.run(("bash", "-euc", script), check=True)
    for handle in (saved_data.ALSO_WAITING, saved_data.WAITING):
        assert saved.type("resume", handle, "blue").code == 0
    assert version(saved.data / "turngate.db") == max(upgrade.migrations())


def test_a_newer_data_directory_is_refused_untouched(saved: CliEnv) -> None:
    """Every command that would use it says that a newer turngate wrote it, exits with 2 and changes nothing."""
    (saved.data / ".turngate-data").write_text("turngate.data-dir/2\n")
    before = {path: path.read_bytes() for path in saved.data.rglob("*") if path.is_file()}
    for words in (
        ("handles",),
        ("handles", "show", "bb2"),
        ("handles", "prune", "--older-than", "0h"),
        ("resume", "bb2", "go on"),
        ("start", "codex", "hello"),
        ("serve", "--port", "0"),
    ):
        said = saved.type(*words)
        assert said.code == 2, words
        assert "a newer turngate wrote it: its format is turngate.data-dir/2" in said.err
        assert "it is unchanged" in said.err
    assert {path: path.read_bytes() for path in saved.data.rglob("*") if path.is_file()} == before
