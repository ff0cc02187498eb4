"""Warm waits of the real engines, with the stub model backend."""

import os
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from tests.probes import engines
from tests.reference import server_env
from tests.reference.cli_env import CliEnv
from tests.reference.server import warm_env
from tests.reference.server.warm_env import ENDS, LIVING, NEW
from turngate_reference.states import State

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("engine", ["codex", "gemini", "opencode"])
def test_every_turn_has_the_conversation_however_it_was_delivered(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Turns in a living process, after `kill -9` of its tree, after its time and at a terminal share one session."""
    real = engines.pinned_release(engine)
    place = server_env.server_env(CliEnv(tmp_path, capsys))
    place.cli_env.path.mkdir()
    searched = f"{place.cli_env.path}{os.pathsep}{os.environ['PATH']}"
    place.settings = replace(place.settings, env={**place.settings.env, "PATH": searched})
    monkeypatch.setenv("PATH", searched)
    for module in (server_env, warm_env):
        monkeypatch.setattr(module, "PATIENCE", 300.0)
    with warm_env.warm_env(place, engine, real=real) as env:
        run_id, _ = env.ask(prompt="paint the door")
        session = env.server_env.run(run_id).session
        env.turn(run_id, "living")
        main = psutil.Process(env.pid(run_id))
        for process in (*main.children(recursive=True), main):
            with suppress(psutil.NoSuchProcess):  # some end with their children
                process.kill()
        env.turn(run_id, "killed")
        again = LIVING if real[0].sticky.loads_headless_sessions else NEW
        env.turn(run_id, "again")
        env.server_env.server.kept.finish(run_id)
        for name, value in env.server_env.settings.env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("TURNGATE_DATA_DIR", str(env.server_env.settings.data.root))
        done = env.server_env.cli_env.type("resume", env.server_env.run(run_id).handle, "terminal")
        assert done.code == 0, done
        env.turn(run_id, "late")
        env.reply(run_id, ENDS)
        assert env.server_env.wait(run_id, State.SUCCEEDED).session == session
        assert env.deliveries(run_id) == [NEW, LIVING, NEW, again, NEW, NEW, again]
        said = env.last_request()
        assert [
            word for word in ("paint the door", "living", "killed", "again", "terminal", "late") if word not in said
        ] == []
        assert not env.box.backend.egress()
