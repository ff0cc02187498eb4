"""The tests of the real engines, on simulated ones: the reference server's client, and the stub as their model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_resident import (
    Kept,
    test_a_refused_key_is_a_failure_of_the_turn,
    test_an_action_is_asked_for_and_done_only_if_allowed,
    test_in_auto_nobody_is_asked,
    test_three_turns_run_in_one_process_and_share_their_context,
)
from tests.probes.simulate.played import at_known_release
from turngate_probes.sandbox import sandbox
from turngate_probes.simulate.process import install
from turngate_reference.resident import ResidentHost

__all__ = [
    "test_a_refused_key_is_a_failure_of_the_turn",
    "test_an_action_is_asked_for_and_done_only_if_allowed",
    "test_in_auto_nobody_is_asked",
    "test_three_turns_run_in_one_process_and_share_their_context",
]


@pytest.fixture(name="kept", params=["codex", "gemini", "opencode", "claude", "qwen"])
def _kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    """Simulate the release that is known best, and open a host for it."""
    engine = str(request.param)
    contract, host = at_known_release(engine), ResidentHost()
    with sandbox(contract.hermetic, tmp_path, engine, keep=False) as box:
        try:
            yield Kept(contract, install(contract, tmp_path / "bin"), box, host)
        finally:
            host.close()
