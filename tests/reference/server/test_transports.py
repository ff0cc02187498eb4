"""The tests of real engines, run on simulated ones with the reference server's client and the stub as their model."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.acceptance.test_sticky import (
    Kept,
    test_a_refused_key_is_a_failure_of_the_turn,
    test_an_action_is_asked_for_and_done_only_if_allowed,
    test_in_auto_nobody_is_asked,
    test_three_turns_run_in_one_process_and_share_their_context,
)
from tests.longer import first_quick
from tests.probes.simulate.played import at_known_release
from turngate.model import Mode
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.simulate.simulated_process import install
from turngate_probes.stub_model import StubRule, Text
from turngate_reference.server.transports.events import Gone, Lost, PermissionAsked, TurnEnded
from turngate_reference.server.transports.host import ProcessHost

__all__ = [
    "test_a_refused_key_is_a_failure_of_the_turn",
    "test_an_action_is_asked_for_and_done_only_if_allowed",
    "test_in_auto_nobody_is_asked",
    "test_three_turns_run_in_one_process_and_share_their_context",
]


@pytest.fixture(name="kept", params=first_quick(["codex", "gemini", "opencode", "claude", "qwen", "iflow"]))
def _kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    """Install the best-known release as a simulated engine, and open a host for it."""
    engine = str(request.param)
    contract, host = at_known_release(engine), ProcessHost()
    with sandbox(contract.hermetic, tmp_path, engine, keep=False) as box:
        try:
            yield Kept(contract, install(contract, tmp_path / "bin"), box, host)
        finally:
            host.close()


def faulty(kept: Kept, *names: str) -> None:
    """Replace the engine by a simulated one with these faults."""
    install(kept.contract, kept.executable.parent, names)
    kept.box.backend.script(StubRule(Text("hello")))


@pytest.mark.long
def test_one_that_dies_after_a_turn_is_lost(kept: Kept) -> None:
    """The loss reports its last line on stderr."""
    faulty(kept, "dies-after-turn")
    kept.open(Mode.INTERACTIVE)
    assert kept.turn("hello").final_text == "hello"
    assert "exited after its first turn" in kept.until(Lost).detail
    assert kept.until(Gone).exit_code == 1


@pytest.mark.long
def test_one_that_ignores_termination_is_ended_all_the_same(kept: Kept) -> None:
    """No process is left."""
    faulty(kept, "ignores-termination")
    opened = kept.open(Mode.INTERACTIVE)
    kept.turn("hello")
    kept.host.end("run")
    kept.until(Gone)
    assert not psutil.pid_exists(opened.pid)


@pytest.mark.long
def test_one_that_asks_twice_is_answered_twice(kept: Kept) -> None:
    """The questions come one after the other; if one is refused, the action isn't done."""
    faulty(kept, "asks-twice")
    kept.open(Mode.INTERACTIVE)
    kept.turn("hello")
    kept.script_a_write("apple")
    kept.host.prompt("run", "Write apple.")
    for choice in (0, 1):
        asked = kept.until(PermissionAsked)
        kept.host.decide("run", asked.request_id, asked.options[choice])
    assert kept.until(TurnEnded).declined
    assert not kept.written.exists()


@pytest.mark.long
def test_noise_is_passed_over(kept: Kept) -> None:
    """Lines that aren't JSON are ignored."""
    faulty(kept, "prints-noise")
    kept.open(Mode.INTERACTIVE)
    assert kept.turn("hello").final_text == "hello"


@pytest.mark.long
def test_one_that_changes_its_session_fails_the_turn(kept: Kept) -> None:
    """The new session lacks the conversation, so the turn fails, and the failure names both sessions."""
    faulty(kept, "changes-session")
    opened = kept.open(Mode.INTERACTIVE)
    first = kept.turn("hello")
    assert (first.final_text, first.failure) == ("hello", None)
    second = kept.turn("hello again")
    assert second.final_text is None
    assert f"it switched from session {opened.session_id or first.session_id} to " in str(second.failure)
