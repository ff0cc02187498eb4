from pathlib import Path

from tests.reference.server.transports.stage import Stage, contract
from turngate_reference.server.transports.events import Gone, Lost, PermissionAsked
from turngate_reference.server.transports.json_commands import filled


def test_the_session_is_asked_for(stage: Stage) -> None:
    """The reply to the session command has the session id."""
    _, opened = stage.opened(contract("json_commands"))
    assert opened.session_id in [message.get("data", {}).get("sessionId") for message in stage.messages("<")]


def test_a_session_without_an_id_is_a_loss(stage: Stage) -> None:
    """A reply without a session id ends the process before the first prompt."""
    received = stage.open(contract("json_commands"), faults="session-id=absent")
    assert "its session has no id in data.sessionId" in received.until(Lost).detail


def test_a_refused_command_fails_the_turn(stage: Stage) -> None:
    """A reply that is not accepted fails the turn with its reason, also if it repeats no id."""
    received = stage.open(contract("json_commands"), faults="refuses-prompt")
    assert stage.turn(received, "go on").failure == "prompt: busy"


def test_a_failure_is_an_event(stage: Stage) -> None:
    """The failure that an event reports fails the turn, and the next one runs."""
    received, _ = stage.opened(contract("json_commands"))
    assert stage.turn(received, "do: fail").failure == "key refused"
    assert stage.turn(received, "do: say hi").final_text == "hi"


def test_another_session_fails_the_turn(stage: Stage) -> None:
    """A turn that ends in another session lacks the earlier conversation, so it fails."""
    received, opened = stage.opened(contract("json_commands"))
    stage.turn(received, "go on")
    failure = stage.turn(received, "fault: changes-session").failure or ""
    assert failure.startswith(f"it switched from session {opened.session_id} to ")


def test_a_running_turn_is_stopped_before_the_process_ends(stage: Stage) -> None:
    """A process that is ended during a turn first gets the command that stops the turn."""
    received, _ = stage.opened(contract("json_commands"))
    stage.host.prompt("run", "do: act")
    received.until(PermissionAsked)
    stage.host.end("run")
    received.until(Gone)
    sent = (stage.folder / "run/protocol").read_text().splitlines()
    assert any(line.endswith('> {"type":"abort"}') for line in sent)


def test_the_files_of_a_mode_lie_outside_the_workspace(stage: Stage) -> None:
    """Only mode interactive gets the file that makes pi ask, in a private folder that its option names."""
    _, opened = stage.opened(contract("json_commands"))
    (file,) = [token for token in opened.argv if token.endswith("ask-before-acting.ts")]
    assert not Path(file).is_relative_to(stage.folder)
    assert "confirm" in Path(file).read_text("utf-8")


def test_the_prompt_fills_only_whole_texts() -> None:
    """A prompt takes the place of each text that is only its slot, however deep, and is not filled itself."""
    template = {"type": "say {text}", "parts": [{"text": "{text}"}], "count": 1}
    assert filled(template, "{text}") == {"type": "say {text}", "parts": [{"text": "{text}"}], "count": 1}
    assert filled(template, "hi") == {"type": "say {text}", "parts": [{"text": "hi"}], "count": 1}
