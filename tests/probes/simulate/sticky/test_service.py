"""Turns of engines that serve many sessions."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.probes.simulate.sticky.services import Served, parts, started
from turngate import load_contract
from turngate_probes.releases.pins import pinned_version
from turngate_probes.simulate.simulated_process import install


@pytest.mark.long
def test_turns_over_http(tmp_path: Path) -> None:
    """A turn ends with its answer; the next one asks, and acts after the decision; another process goes on."""
    with started("opencode", tmp_path, "serve", "--port=0") as process:
        served = Served(process)
        events = served.events()
        assert next(events)["type"] == "server.connected"
        _, session = served.ask("POST", "/session", {})
        path = f"/session/{session['id']}"
        _, first = served.ask("POST", f"{path}/message", parts("first"))
        assert "ask_user" in first["parts"][1]["text"]
        assert served.ask("POST", f"{path}/prompt_async", parts("red"))[0] == 204
        asked = next(event for event in events if event["type"] == "permission.asked")["properties"]
        assert served.ask("POST", f"{path}/permissions/{asked['id']}", {"response": "once"}) == (200, True)
        assert any(event["type"] == "session.idle" for event in events)
    assert (tmp_path / "touched.txt").exists()
    with started("opencode", tmp_path, "serve", "--port", "0") as process:
        served = Served(process)
        roles = [message["info"]["role"] for message in served.ask("GET", f"{path}/message")[1]]
        assert roles[:2] == ["user", "assistant"]
        assert served.ask("GET", "/session/ses_none")[0] == 404
        assert served.ask("GET", "/no-such-path")[0] == 404
        assert served.ask("DELETE", path) == (200, True)
        assert served.ask("GET", path)[0] == 404


@pytest.mark.long
def test_sessions_have_their_turns_at_once(tmp_path: Path) -> None:
    """Both ask before one is answered, and each goes on with its own answer; both are listed as busy until then."""
    with started("opencode", tmp_path, "serve") as process:
        served = Served(process)
        events = served.events()
        assert next(events)["type"] == "server.connected"
        sessions = [served.ask("POST", "/session", {})[1]["id"] for _ in range(2)]
        for session in sessions:
            served.ask("POST", f"/session/{session}/message", parts("first"))
            assert served.ask("POST", f"/session/{session}/prompt_async", parts("red"))[0] == 204
        waiting = (event["properties"] for event in events if event["type"] == "permission.asked")
        asked = {about["sessionID"]: about["id"] for _, about in zip(sessions, waiting, strict=False)}
        assert served.ask("GET", "/session/status")[1] == {session: {"type": "busy"} for session in sessions}
        for session, decision in zip(reversed(sessions), ("once", "reject"), strict=True):
            assert served.ask("POST", f"/permission/{asked[session]}/reply", {"reply": decision}) == (200, True)
            ended = next(event for event in events if event["type"] == "session.idle")
            assert ended["properties"]["sessionID"] == session
        assert served.ask("GET", "/session/status") == (200, {})


@pytest.mark.long
@pytest.mark.parametrize("fault", ["crash", "omits-end"])
def test_a_turn_over_http_that_never_ends(fault: str, tmp_path: Path) -> None:
    """The connection closes without a response."""
    contract = load_contract("opencode", pinned_version("opencode"))
    path = install(contract, tmp_path / "bin", (fault,))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with subprocess.Popen((path, "serve"), cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        served = Served(process)
        _, session = served.ask("POST", "/session", {})
        with pytest.raises(ConnectionError):
            served.ask("POST", f"/session/{session['id']}/message", parts("first"))
        assert (process.wait(PATIENCE) == 0) is (fault == "omits-end")


def test_a_turn_without_an_answer_leaves_none(tmp_path: Path) -> None:
    """A client that reads the session instead of the events finds no text of the turn either."""
    path = install(load_contract("opencode", pinned_version("opencode")), tmp_path / "bin", ("omits-answer",))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with subprocess.Popen((path, "serve"), cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        served = Served(process)
        _, session = served.ask("POST", "/session", {})
        served.ask("POST", f"/session/{session['id']}/message", parts("first"))
        _, messages = served.ask("GET", f"/session/{session['id']}/message")
        assert [part["text"] for message in messages for part in message["parts"]] == ["first"]
        process.kill()
